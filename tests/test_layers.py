"""The layered contract of pyproject.toml refuses an import that climbs, in every layer."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
from pathlib import Path

from ground.text.toml import tomllib
from tests.places import ROOT

CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
LAYERS = [[room.strip() for room in layer.split("|")] for layer in CONTRACTS["contracts"][0]["layers"]]


def modules_of(room: str) -> list[str]:
    """Those of a room; a room may be one module."""
    place = ROOT / room.replace(".", "/")
    files = [file for file in sorted(place.glob("*.py")) if file.stem != "__init__"]
    return [f"{room}.{file.stem}" for file in files] or [room]


def test_an_import_that_climbs_is_refused(tmp_path: Path) -> None:
    """All of them at once, in a copy of the house; that the house itself keeps its contracts is for `make lint`."""
    # Of a room's modules the first imports of every layer above it, the last of the rooms beside it.
    climbing = [
        (modules_of(room)[0], modules_of(other)[-1])
        for at, layer in enumerate(LAYERS)
        for room, other in itertools.product(layer, itertools.chain.from_iterable(LAYERS[:at]))
    ]
    beside = [
        (modules_of(room)[-1], modules_of(other)[-1])
        for layer in LAYERS
        for room, other in itertools.permutations(layer, 2)
    ]
    # A command imports no other command.
    forbidden = [*climbing, *beside, ("ioflame.commands.report", "ioflame.commands.analyse")]
    circle = ("workloads.releases", "workloads.libraries")
    for name in CONTRACTS["root_packages"]:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "*.rs", "target"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for module, imported in [*forbidden, circle]:
        with (tmp_path / f"{module.replace('.', '/')}.py").open("a", encoding="utf-8") as file:
            file.write(f"\nimport {imported}\n")
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint, "--no-cache"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert [one for one in forbidden if " -> ".join(one) not in done.stdout] == []
    assert "- .releases -> .libraries" in done.stdout
