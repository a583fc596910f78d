"""Modules of ours as programs, and the launcher of the archive: they find ours wherever they are started."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ground.system.run_module import module_argv
from ioflame import __version__, launcher
from tests.places import ROOT

# As an archive has them beside each other (dist_archive.sh).
OURS = ("ioflame", "ground", "workloads", "collectors", "ebpf", "folding", "viz")
THEIRS = ("msgspec", "rich", "jinja2", "markupsafe", "elftools", "tomli" if sys.version_info < (3, 11) else "pygments")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A directory in which packages are called like ours, and fail."""
    for name in ("ioflame", "ground"):
        (tmp_path / "elsewhere" / name).mkdir(parents=True)
        (tmp_path / "elsewhere" / name / "__init__.py").write_text("raise SystemExit('not ours')\n")
    return tmp_path / "elsewhere"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    lib = tmp_path / "archive" / "lib"
    lib.mkdir(parents=True)
    for name in OURS:
        (lib / name).symlink_to(ROOT / name)
    for name in THEIRS:
        found = importlib.util.find_spec(name)
        assert found is not None and found.origin is not None
        (lib / name).symlink_to(Path(found.origin).parent)
    shutil.copy(launcher.__file__, lib.parent / "ioflame")
    return lib.parent


def run(argv: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)


def test_a_module_is_found_where_a_directory_is_called_like_ours(elsewhere: Path) -> None:
    done = run([*module_argv("ioflame.cli"), "--version"], elsewhere)
    assert (done.returncode, done.stdout.split()[:2]) == (0, ["ioflame", __version__]), done.stderr


def test_the_launcher_needs_nothing_but_what_is_beside_it(archive: Path, elsewhere: Path) -> None:
    # By a link, as /usr/bin has one; without the packages of this Python.
    link = elsewhere / "linked"
    link.symlink_to(archive / "ioflame")
    done = run([sys.executable, "-S", str(link), "list"], elsewhere)
    assert done.returncode == 0 and "readrandom" in done.stdout, done.stderr


def test_a_python_that_is_too_old_is_named(archive: Path) -> None:
    # No old one is at hand: its number is.
    script = "import runpy, sys; sys.version_info = (3, 9, 2); runpy.run_path(sys.argv[1], run_name='__main__')"
    done = run([sys.executable, "-c", script, str(archive / "ioflame")], archive)
    assert done.returncode == 3 and f"{sys.executable} is Python 3.9; ioflame needs 3.10" in done.stderr
