"""The crates: a room depends on crates/ alone."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.places import ROOT


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
