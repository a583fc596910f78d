"""Stacks of whatever somebody profiled with, as stackfold reads it."""

from __future__ import annotations

import functools
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from folding.stackfold import run_stackfold, stackfold_binary
from ground.errors import MeasurementError, UsageError
from ground.results.files import Files
from ground.results.profile import Folded, read_profile
from ground.results.run import open_run
from ground.system.process import Output, capture
from ground.system.scratch import scratch_directory
from ioflame.stages.rules import rules_of
from viz.flame.stacks import Stack, stacks_of
from workloads.registry import engine_frames, engine_names, rules_named

_FIRST_BYTES = 1 << 13
_TIMEOUT = 1800
# A line of folded text ends in its weight; perf script and binary files do not begin so.
_FOLDED = re.compile(rb"\S.*[ \t]\d+(\.\d*)?\s*")
_BESIDE = {Files.FOLDED: Files.FOLD_STATS, Files.PMP_FOLDED: Files.PMP_FOLD_STATS, Files.OFF_CPU_FOLDED: Files.OFF_CPU}
# Of the weight: an engine that has so much of it is what the profile is of.
_ENOUGH = 0.1
# gzip, xz, zstd: stackfold unpacks them.
_PACKED = (b"\x1f\x8b", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd")


@dataclass(frozen=True, slots=True)
class Source:
    """What was given: a file, or the bytes of standard input (path `-`)."""

    path: str
    data: bytes | None

    @property
    def head(self) -> bytes:
        if self.data is not None:
            return self.data[:_FIRST_BYTES]
        with Path(self.path).open("rb") as file:
            return file.read(_FIRST_BYTES)

    @property
    def is_packed(self) -> bool:
        return self.head.startswith(_PACKED)

    @property
    def is_folded(self) -> bool:
        lines = [line for line in self.head.splitlines() if line.strip() and not line.startswith(b"# ")]
        chain = [line for line in lines[1:2] if line.startswith((b"\t", b" "))]
        return bool(lines) and _FOLDED.fullmatch(lines[0]) is not None and not chain and not self.is_packed


@dataclass(frozen=True, slots=True)
class Stacks:
    """event, unit: empty where the input does not have them; cut_short: why some of the input is missing, empty where
    none is; categories: names and labels in the order of the rules; recognised: the engine whose rules were taken
    without being asked for"""

    stacks: list[Stack]
    event: str = ""
    unit: str = ""
    cut_short: str = ""
    categories: Sequence[tuple[str, str]] = ()
    recognised: str = ""


def read_source(path: str) -> Source:
    """UsageError when the file cannot be read, or nothing is piped in."""
    if path == "-":
        if sys.stdin.isatty():
            raise UsageError(
                "no FILE, and standard input is a terminal",
                means="nothing would ever come",
                mend="ioflame flamegraph FILE, or perf script | ioflame flamegraph",
            )
        return Source(path, sys.stdin.buffer.read())
    try:
        with Path(path).open("rb"):
            return Source(path, None)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}", means="nothing was drawn", mend="a file of stacks, or - to read"
        ) from None


def read_stacks(source: Source, event: str | None, rules: str | None, view: str) -> Stacks:
    """The stacks, with the category of `view`: by `rules` where they are given, else by those of the engine that is
    seen in them.

    event: which of several events of a recording, or values of a pprof. MeasurementError for what no reader can read.
    """
    if not source.head.strip():
        raise MeasurementError("no stack with any weight: there is nothing to draw", means="the input is empty")
    rules = rules or _rules_of_run(source)
    found = _recognised(source, _from_stackfold(source, event, rules, view), event, rules, view)
    of_run, unit = _told_beside(source)
    return replace(found, event=of_run or found.event, unit=unit or found.unit)


def _recognised(source: Source, found: Stacks, event: str | None, rules: str | None, view: str) -> Stacks:
    """The same by the rules of the engine that has most of the weight in its own frames, where that is a tenth."""
    if rules is not None:
        return found
    total, weights = sum(stack.weight for stack in found.stacks), dict[str, int]()
    for name in engine_names():
        is_own = functools.cache(re.compile("|".join(engine_frames(name))).match)
        weights[name] = sum(stack.weight for stack in found.stacks if any(map(is_own, stack.frames)))
    engine = max(weights, key=lambda name: weights[name])
    if not total or weights[engine] < _ENOUGH * total:
        return found
    try:
        return replace(_from_stackfold(source, event, rules_named(engine).categories, view), recognised=engine)
    except UsageError:
        return found  # of a view that these rules do not have


def _rules_of_run(source: Source) -> str | None:
    """Those of the run whose own folded stacks it is, so that both are coloured alike; None for any other file."""
    path = Path(source.path)
    own = source.data is None and path.name == Files.FOLDED and path.with_name(Files.RECORD).exists()
    return rules_of(open_run(path.parent)).categories if own else None


def _told_beside(source: Source) -> tuple[str, str]:
    """Event and unit of a run's own folded stacks, from what lies beside them; empty for any other file."""
    path = Path(source.path)
    beside = _BESIDE.get(path.name)
    if source.data is not None or beside is None or not path.with_name(beside).exists():
        return "", ""
    if beside == Files.OFF_CPU:
        return "off-cpu", "ns"
    told = json.loads(path.with_name(beside).read_text(encoding="utf-8"))
    return told.get("event") or "", told.get("unit") or ""


def write_pprof(source: Source, event: str | None, out: Path) -> None:
    """The input as pprof, for `go tool pprof` and its kin."""
    argv = [stackfold_binary(), "-q", "--kernel", "-o", str(out), *(["--event", event] if event else []), source.path]
    capture(argv, timeout=_TIMEOUT, stdin=source.data).require("stackfold")


def fold_source(
    source: Source,
    path: Path,
    event: str | None,
    rules: str | None = None,
    view: str = "owner",
    more: Sequence[str] = (),
) -> Folded:
    """Folds a file of any kind into the profile `path`. more: options of stackfold; errors as those of `read_stacks`"""
    argv = ["--kernel", *(["--event", event] if event else []), *more, source.path]
    done = run_stackfold(argv, path, rules, [view], source.data)
    if done.returncode == 2:
        # stackfold's advice, as it can be followed from here.
        words = _words(done).replace("--weight count", "stackfold --weight count FILE | ioflame flamegraph")
        raise UsageError(
            f"{_named(source)} cannot be folded: {words}", mend="--event NAME" if "--event" in done.errors else ""
        )
    if not path.exists():
        raise MeasurementError(
            f"{_named(source)} cannot be read as a profile: {_words(done)}",
            means="it is no folded text, recording of perf, text of perf script or pprof; or nothing is left of it",
        )
    return read_profile(path)


def _from_stackfold(source: Source, event: str | None, rules: str | None, view: str) -> Stacks:
    with scratch_directory() as scratch:
        profile = fold_source(source, scratch / Files.PROFILE, event, rules, view)
    known = profile.statistics
    unit = "" if known.unit == "unstated" else known.unit
    stacks = stacks_of(profile, view if rules is not None else None)
    categories = profile.labels(view) if rules is not None else ()
    return Stacks(stacks, known.event or "", unit, known.truncated_input or "", categories)


def _named(source: Source) -> str:
    return "standard input" if source.data is not None else source.path


def _words(done: Output) -> str:
    return done.errors.removeprefix("stackfold: ")[-2000:] or f"stackfold ended with exit code {done.returncode}"
