"""stackfold alone: installed by cargo from any directory, with the versions that were tested, and run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.places import ROOT


@pytest.mark.by_hand
def test_stackfold_installs_from_elsewhere_and_runs(tmp_path: Path) -> None:
    # Into the workspace's own target directory: what other tests have built is not built again.
    install = ["cargo", "install", "--quiet", "--locked", "--debug", "--target-dir", str(ROOT / "target")]
    install += ["--path", str(ROOT / "folding")]
    subprocess.run([*install, "--root", str(tmp_path)], check=True, cwd=tmp_path)
    installed = [path.name for path in (tmp_path / "bin").iterdir()]
    assert installed == ["stackfold"]
    sample = b"t 1/2 [000] 1.000001:   7 cpu-clock: \n\t 401136 f (/bin/t)\n\t 401200 main (/bin/t)\n\n"
    program = str(tmp_path / "bin" / "stackfold")
    folded = subprocess.run([program, "-q"], input=sample, capture_output=True, check=True, cwd=tmp_path).stdout
    assert folded == b"t;main;f 7\n"
    # The rules are in the binary.
    argv = [program, "categories", "--rules", "rocksdb"]
    table = subprocess.run(argv, input=folded, capture_output=True, check=True, cwd=tmp_path).stdout
    assert b"libc+k" in table
