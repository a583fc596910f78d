"""One build of an engine: the client that drives it, and the file with its code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class EngineBuild:
    """A benchmark binary as found.

    version:        the engine's own (`7.8.3`)
    assertions:     it was built with assertions and says it is slow
    symbols:        `debug info`, `symbol table` or `exported names only`
    frame_pointers: share of functions that set one up, 0..1; None where the code could not be read
    code:           the file that holds the engine's code: the binary, or its shared library
    warnings:       its own other warnings, word for word
    flags:          names of the flags it accepts, by its own --help; None where it refuses what it does not know
    hardware:       what it says of the CPU's help, in its own words
    left_out:       flags of ours that it does not get, each with why that changes nothing
    library:        the file that our client is to open; None for the one that it finds, or that is part of it
    released:       of a release, where it is from and what is bundled in it, by the names that a run records
    lacks:          benchmarks' beginnings that its interface has no function for, each with the version that has it
    """

    path: Path
    version: str
    assertions: bool
    symbols: str
    frame_pointers: float | None
    code: Path
    warnings: tuple[str, ...]
    flags: frozenset[str] | None
    left_out: Mapping[str, str]
    hardware: Mapping[str, str] = field(default_factory=dict)
    library: Path | None = None
    released: Mapping[str, str] = field(default_factory=dict)
    lacks: Mapping[str, str] = field(default_factory=dict)
