"""The crates: a room depends on crates/ alone, and within a crate a name means one thing."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.places import ROOT

# A crate by the folder of its sources.
_SOURCES = (
    "crates/framediff/src", "crates/function_names/src", "crates/observer/src", "crates/perfdata/src",
    "crates/recording/src", "crates/symbolize/src", "collectors/stacksampler/src", "ebpf/src", "folding/src",
    "workloads/client/src",
)  # fmt: skip
# Associated types (`type Item = ...`) are indented, and have the name that their trait gives them.
_TYPE = re.compile(
    r"^(?: *(?:pub(?:\([a-z]+\))? )?(?:struct|enum|trait|union)|(?:pub(?:\([a-z]+\))? )?type) (\w+)", re.MULTILINE
)


def crossings(workspace: Path) -> list[str]:
    """Dependencies by path from one room into another, or from crates/ into a room; those of tests and builds count."""
    argv = ["cargo", "metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path"]
    done = subprocess.run([*argv, str(workspace / "Cargo.toml")], capture_output=True, check=True)

    def room(path: str) -> str:
        return Path(path).relative_to(workspace).parts[0]

    found = []
    for package in json.loads(done.stdout)["packages"]:
        own = room(package["manifest_path"])
        others = {room(needed["path"]) for needed in package["dependencies"] if needed.get("path")}
        found += [f"{own} needs {other}" for other in sorted(others - {own, "crates"})]
    return found


@pytest.mark.needs("cargo")
def test_rooms_depend_on_crates_alone() -> None:
    assert crossings(ROOT) == []


@pytest.mark.needs("cargo")
@pytest.mark.parametrize(
    ("own", "other", "table"),
    [
        ("ebpf", "collectors/sampler", "dependencies"),
        ("collectors/sampler", "folding", "dev-dependencies"),
        ("crates/observer", "ebpf", "build-dependencies"),
    ],
)
def test_a_crate_that_reaches_into_a_room_is_found(tmp_path: Path, own: str, other: str, table: str) -> None:
    (tmp_path / "Cargo.toml").write_text(f'[workspace]\nresolver = "3"\nmembers = ["{own}", "{other}"]\n')
    for folder in (own, other):
        package = f'[package]\nname = "{Path(folder).name}"\nversion = "0.1.0"\nedition = "2024"\n'
        reached = f'[{table}]\n{Path(other).name} = {{ path = "{tmp_path / other}" }}\n' if folder == own else ""
        (tmp_path / folder / "src").mkdir(parents=True)
        (tmp_path / folder / "src" / "lib.rs").touch()
        (tmp_path / folder / "Cargo.toml").write_text(package + reached)
    assert crossings(tmp_path) == [f"{own.partition('/')[0]} needs {other.partition('/')[0]}"]


@pytest.mark.parametrize("sources", _SOURCES)
def test_no_type_name_stands_twice_in_a_crate(sources: str) -> None:
    names = Counter(name for file in (ROOT / sources).rglob("*.rs") for name in _TYPE.findall(file.read_text()))
    assert names and [name for name, count in names.items() if count > 1] == []


# Folders of modules.
_FOLDERS = [folder for sources in _SOURCES for folder in (ROOT / sources, *sorted((ROOT / sources).rglob("*/")))]


def code(*files: Path) -> str:
    """What files hold, as far as they exist, without their tests."""
    return "\n".join(file.read_text().partition("#[cfg(test)]")[0] for file in files if file.exists())


def circle(folder: Path, inside: str = "crate") -> dict[str, set[str]]:
    """What the modules of a folder need of one another, without those that are in no circle; a module and those inside
    it are one. `inside`: the path that begins with the crate. `mod` is the module that the others are in: one needs it
    where it uses a type of its own, unless it implements one and so is a part of it."""
    home = code(folder / "mod.rs", folder / "lib.rs", folder / "main.rs", folder.with_suffix(".rs"))
    modules_of = dict.fromkeys(_TYPE.findall(home), "mod")
    for module, names in re.findall(r"\buse ([a-z_]+)::([^;]*);", home):
        modules_of |= dict.fromkeys(re.findall(r"\b[A-Z]\w*", names), module)
    needs = {"mod": set(re.findall(r"(?<!::)\b([a-z_]+)::", home))}
    for file in folder.rglob("*.rs"):
        way = file.relative_to(folder).with_suffix("").parts
        text = code(file)
        own = "::".join(["super"] * (len(way) - (way[-1] == "mod")))
        if own and way[0] not in ("lib", "main"):
            of = rf"(?<!::)(?:{inside}|{own})::"
            listed = " ".join(re.findall(rf"{of}\{{([^;]*)\}};", text))
            named = {*re.findall(rf"{of}(\w+)", text), *re.findall(r"\b\w+\b", listed)}
            needed = {modules_of.get(name, name) for name in named}
            types = "|".join(name for name in named if modules_of.get(name) == "mod")
            if re.search(rf"^impl(?:<.*>)? (?:\w+ for )?(?:{types})\b", text, re.MULTILINE):
                needed.discard("mod")
            needs.setdefault(way[0], set()).update(needed)
    for module, needed in needs.items():
        needed.discard(module)
    while free := [
        name for name, needed in needs.items() if not needed & needs.keys() or name not in set().union(*needs.values())
    ]:
        for name in free:
            del needs[name]
    return {name: needed & needs.keys() for name, needed in needs.items()}


@pytest.mark.parametrize("folder", _FOLDERS, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_no_modules_need_each_other(folder: Path) -> None:
    way = folder.relative_to(ROOT).parts
    found = circle(folder, "::".join(["crate", *way[way.index("src") + 1 :]]))
    assert not found, f"in a circle: {found}"


@pytest.mark.parametrize(
    "there", ["use super::tree::Tree;", "use crate::{tree::Tree};", "fn f(of: crate::tree::Tree) {}"]
)
def test_a_circle_of_modules_is_found(tmp_path: Path, there: str) -> None:
    (tmp_path / "names.rs").write_text(there)
    (tmp_path / "lib.rs").write_text("mod names;\nmod tree;\nuse tree::Tree;")
    (tmp_path / "tree.rs").write_text("use std::fmt;")
    assert circle(tmp_path) == {}
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "inner.rs").write_text("use super::super::names::{Name, shown};")
    assert circle(tmp_path) == {"names": {"tree"}, "tree": {"names"}}


@pytest.mark.parametrize("there", ["use super::Tree;", "use crate::{Tree};", "impl From<super::Tree> for Name {}"])
def test_a_module_that_uses_a_type_of_the_one_it_is_in_is_found(tmp_path: Path, there: str) -> None:
    (tmp_path / "lib.rs").write_text("mod names;\npub struct Tree(names::Name);")
    (tmp_path / "names.rs").write_text("use super::shown;")
    assert circle(tmp_path) == {}
    (tmp_path / "names.rs").write_text(there)
    assert circle(tmp_path) == {"mod": {"names"}, "names": {"mod"}}
    (tmp_path / "names.rs").write_text("use super::Tree;\nimpl Tree {}")
    assert circle(tmp_path) == {}


def test_a_type_that_is_handed_on_is_looked_for_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "lib.rs").write_text("pub use tree::{Leaf, Tree};")
    (tmp_path / "names.rs").write_text("use super::{Leaf};")
    (tmp_path / "tree.rs").write_text("use super::names::Name;")
    assert circle(tmp_path) == {"names": {"tree"}, "tree": {"names"}}
