"""Names that an engine's rules take for one function: of one build they are one, and comparisons match them."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

import pytest

from folding.frames import ProfileRun, compare_frames
from folding.stackfold import run_stackfold
from ground.text.toml import tomllib
from workloads.registry import engine_named, engine_names, rules_named

ENTRIES = [
    pytest.param(engine, path, entry, id=f"{engine}-{entry['name']}")
    for engine in engine_names()
    for path in rules_named(engine).aliases
    for entry in tomllib.loads(path.read_text(encoding="utf-8"))["same"]
]


@functools.cache
def functions(engine: str) -> set[str]:
    known = engine_named(engine)
    library = known.inspect(known.find_binary(None)).code
    listed = subprocess.run(["nm", "-DC", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"\b(rocksdb(?:::[\w()~ ]+?)+)(?=[<(]|$)", listed, re.MULTILINE))


@pytest.mark.needs("db_bench")
@pytest.mark.parametrize(("engine", "path", "entry"), ENTRIES)
def test_no_build_has_two_of_them(engine: str, path: Path, entry: dict[str, object]) -> None:
    """One that calls the other, say, would be a function that calls itself."""
    aliases = entry["aliases"]
    assert isinstance(aliases, list)
    assert len(functions(engine) & {entry["name"], *aliases}) == 1, f"{path}: none is stale, two are not one function"


@pytest.mark.parametrize(("engine", "path", "entry"), ENTRIES)
def test_they_are_matched(tmp_path: Path, engine: str, path: Path, entry: dict[str, object]) -> None:
    aliases = entry["aliases"]
    assert isinstance(aliases, list)

    def folded(name: object) -> Path:
        profile = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        run_stackfold(["-"], profile, engine, ["owner"], f"bench;main;{name} 100000\n".encode()).require("stackfold")
        return profile

    newest = folded(entry["name"])
    for alias in aliases:
        sides = [(name, [ProfileRun(file, 1000, 100.0)]) for name, file in (("old", folded(alias)), ("new", newest))]
        found = compare_frames(sides, tmp_path / "frames.json", aliases=[path])
        assert [(one.rule, one.before, one.after) for one in found.matches] == [("alias", alias, entry["name"])]
