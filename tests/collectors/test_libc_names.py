"""Where the names of a C library are looked for, and what is said where there are none."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from collectors.checks import libc_names_check, own_libc
from ground.results.checks import Verdict
from tests.programs import compiled


def test_this_process_has_a_c_library() -> None:
    assert Path(own_libc()).exists() and libc_names_check(own_libc()).verdict in (Verdict.OK, Verdict.NOTE)


def test_names_are_in_the_library_or_in_a_cache_or_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("DEBUGINFOD_CACHE_PATH", raising=False)
    library = compiled("int inside(void) { return 1; }\n", tmp_path / "libc.so", "-shared", "-fPIC", "-Wl,--build-id")
    check = libc_names_check(str(library))
    assert check.verdict is Verdict.OK and ".symtab" in check.value
    debug = tmp_path / "debuginfo"
    shutil.copy(library, debug)
    subprocess.run(["strip", library], check=True)
    check = libc_names_check(str(library))
    assert check.verdict is Verdict.NOTE and "only those that it exports" in check.value
    assert "libc6-dbg" in check.mend or "debuginfod-find debuginfo" in check.mend
    notes = subprocess.run(["readelf", "-n", library], capture_output=True, text=True, check=True).stdout
    found = re.search("Build ID: ([0-9a-f]+)", notes)
    assert found
    kept = tmp_path / "cache" / "debuginfod_client" / found[1] / "debuginfo"
    kept.parent.mkdir(parents=True)
    shutil.copy(debug, kept)
    check = libc_names_check(str(library))
    assert check.verdict is Verdict.OK and check.value == str(kept)


def test_no_library_is_no_claim() -> None:
    assert libc_names_check("").value == "not known"
