"""The steps of a profile and of `attach`, with the seconds that each should take: stages of these names are them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ioflame.instruments import INSTRUMENTS
from ioflame.measure.job import Job
from ioflame.measure.turns import Rounds
from ioflame.measure.windows import PLAIN
from workloads.database import SETTLE_SECONDS, TREE_SECONDS, apply_seconds, load_seconds

# Seen on two cores: a program that is loaded and attached; folding with perf report, by seconds that perf watched.
_ATTACH_SECONDS = 1.0
_FOLD_SECONDS, _FOLD_SHARE = 3.0, 0.1
_EXIT_SECONDS = 2.0
_PAGES = [("account", 1.0), ("draw", 1.0)]


def steps_of_profile(job: Job, *, loaded: bool) -> Iterator[tuple[str, float]]:
    """loaded: the database is there and settled"""
    step, shape = job.engine.step(job.options.workload), job.sizing.shape
    if not step.creates and not loaded:
        yield "load", load_seconds(shape)
        yield "settle", SETTLE_SECONDS
    elif not step.creates:
        yield "levelstats", TREE_SECONDS
    turns, windows = job.in_turns, job.in_windows
    attached = _ATTACH_SECONDS * (len(turns) - ("perf" in turns))
    if attached:
        yield "attach", attached
    yield "warm-up", job.usual_warm_up
    if turns:
        # What is left of the engine's time makes further rounds.
        rest = job.lifetime - attached - job.usual_warm_up - job.seconds_of_windows(windows)
        yield "rounds", rest if not job.engine.by_our_client else job.rounds.lasting(turns)
    yield from _between_plain([(name, job.seconds_of(name)) for name in windows], job.duration)
    watched = job.seconds_of("perf") if "perf" in windows else job.rounds.number * job.rounds.of("perf")
    yield "fold", _FOLD_SECONDS + _FOLD_SHARE * watched
    yield "exit", _EXIT_SECONDS
    yield "levelstats", TREE_SECONDS
    if step.changing and not step.creates:
        yield "waitforcompaction", apply_seconds(shape)
    yield from _PAGES


def steps_of_attach(
    names: Sequence[str], rounds: Rounds | None, part: float, *, alone: bool = False
) -> Iterator[tuple[str, float]]:
    """names: what watches; part: seconds of a plain window; rounds: None where each has a window

    alone: nothing is made here of what was recorded
    """
    turns = [name for name in names if rounds is not None and INSTRUMENTS[name].takes_turns]
    if rounds is not None and turns:
        yield "rounds", rounds.lasting(turns)
    windows = [(name, part * INSTRUMENTS[name].time_share) for name in names if name not in turns]
    yield from _between_plain(windows, part)
    if not alone:
        yield "fold", _FOLD_SECONDS
        yield from _PAGES


def _between_plain(windows: Sequence[tuple[str, float]], plain: float) -> Iterator[tuple[str, float]]:
    for window in windows:
        yield PLAIN, plain
        yield window
    if windows:
        yield PLAIN, plain
