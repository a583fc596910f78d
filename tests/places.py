"""Where the checkout and the tests' data are, and the Python that is shipped."""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
DATA = ROOT / "tests" / "data"
# Recordings and captures that stackfold's own tests read as well.
RECORDINGS = ROOT / "folding" / "tests" / "data"
ROOMS = ("ground", "ioflame", "workloads", "collectors", "ebpf", "folding", "viz")


@functools.cache
def shipped() -> Mapping[Path, ast.Module]:
    """What Python makes of each file of the rooms."""
    files = [file for room in ROOMS for file in sorted((ROOT / room).glob("**/*.py"))]
    assert len(files) > 100
    return {file: ast.parse(file.read_text(encoding="utf-8")) for file in files}
