"""Starts a module of ours as a program of its own: `run_module.py MODULE WORDS...`.

It finds the modules that lie beside it, in a checkout, a wheel or an archive: no PYTHONPATH is set, which everything
started below would inherit, and no directory of the caller's that is called like one of ours hides them.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path


def module_argv(module: str) -> list[str]:
    """The words that start it; its own follow."""
    return [sys.executable, __file__, module]


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
