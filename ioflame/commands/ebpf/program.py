"""What `ioflame ebpf` needs of each program: one module a program fills one of these in."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ground.system.observer import Observer
from ground.system.process import Children
from ioflame.stages.shown import Shown

__all__ = ("EbpfProgram", "add_backend")


@dataclass(frozen=True)
class EbpfProgram:
    """One subcommand of `ioflame ebpf`.

    name, about:   the subcommand and its line in the list
    overhead:      a paragraph: what it costs the workload, measured how
    example:       a command line and what it printed
    add_arguments: its own options; --pid, --children, --seconds, --json and --out are there already
    observer:      from the parsed options, the children of the job and the file to write; not attached yet
    show:          reads that file
    """

    name: str
    about: str
    overhead: str
    example: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    observer: Callable[[argparse.Namespace, Children, Path], Observer]
    show: Callable[[Path], Shown]


def add_backend(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """--backend, for a program that has several: `names`, in the order of preference."""
    parser.add_argument(
        "--backend",
        default=os.environ.get("EBPF") or "auto",
        help=f"auto (the first that works here), or one of {', '.join(names)} (default: EBPF, or auto)",
    )
