"""Where the checkout and the tests' data are."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent
DATA = ROOT / "tests" / "data"
# Recordings and captures that stackfold's own tests read as well.
RECORDINGS = ROOT / "folding" / "tests" / "data"
