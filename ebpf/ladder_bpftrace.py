"""The latency ladder from the read call on, by `scripts/ladder_read.bt`: for hosts without clang or BTF."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ebpf.bpftrace import BpftraceObserver, BpftraceRun, Edge, read_histograms, read_maps, read_totals
from ground.results.histogram import Histogram
from ground.results.ladder import CLASSES, STAGES, Ladder, LadderDevice, Rung
from ground.system.diskstats import DiskStats, disk_stats
from ground.system.held_process import HeldProcess
from ground.system.observer import Observer
from ground.system.process import Children

_NOTES = [
    "by bpftrace: every call is followed, from the read call on, without the engine's parts",
    "requests are known by their sector; events that interrupt others are lost: disorder",
]
# As the script numbers its rows.
_STAGES = dict(enumerate(name for name, step in STAGES.items() if step.where != "engine"))
_CLASSES = {10 + number: name for number, name in enumerate(CLASSES)}

_Disks = dict[tuple[int, int], DiskStats]


def bpftrace_ladder(children: Children, pid: int, out: Path) -> Observer:
    """The observer `ladder` on bpftrace. UsageError for a process that is not there."""

    def result(text: str, opened: Edge[_Disks], closed: Edge[_Disks]) -> Ladder:
        return decode(text, pid, (opened.ns, closed.ns), (opened.before, closed.after))

    run = BpftraceRun(children, "ladder_read", [pid, 0, "CONTROL"], out)
    what = "latency ladder of each read call, a bpftrace script on tracepoints"
    return BpftraceObserver("ladder", what, run, disk_stats, result, out, HeldProcess(pid))


def decode(text: str, pid: int, window: tuple[int, int], disks: tuple[_Disks, _Disks]) -> Ladder:
    """The script's maps as a Ladder.

    text: bpftrace's `-f json` output; disks: the counters of every disk at the window's edges
    """
    maps = read_maps(text)
    one = read_totals(maps)
    durations = read_histograms(maps, "rung", int)
    rungs = {number: _rung(number, held) for number, held in durations.items()}
    return Ladder(
        backend="bpftrace",
        pid=pid,
        start_ns=window[0],
        end_ns=window[1],
        sample=1,
        start="syscall",
        notes=list(_NOTES),
        query=[],
        reader=[],
        uprobes=None,
        trap=None,
        queries=one.get("begun", 0),
        followed=one.get("begun", 0),
        threads=len({key for key, _ in maps.get("threads", [])}),
        stages=[rungs[number] for number in _STAGES if number in rungs],
        classes=[rungs.get(number, Rung(name)) for number, name in _CLASSES.items()],
        outside=Rung("outside"),
        device=_device({int(key[0]): count for key, count in maps.get("device", [])}, disks),
        losses={
            "collided": one.get("collided", 0),
            "async_calls": one.get("async", 0),
            "lost_rung": one.get("rung_count", 0) - sum(held.count for held in durations.values()),
        },
        process_ended=bool(one.get("ended", 0)),
    )


def _rung(number: int, held: Histogram) -> Rung:
    name = _STAGES[number] if number in _STAGES else _CLASSES[number]
    return Rung(name, held.count, held.sum_ns, held.least_ns, held.most_ns, held.buckets)


def _device(followed: Mapping[int, int], disks: tuple[_Disks, _Disks]) -> LadderDevice | None:
    """The disk that most followed reads went to; followed: by dev_t."""
    if not followed:
        return None
    number = max(followed, key=lambda number: followed[number])
    key = number >> 20, number & 0xFFFFF
    opened, closed = (stats.get(key) for stats in disks)
    if opened is None or closed is None:
        return None
    read = closed.counts.read.since(opened.counts.read)
    return LadderDevice(
        *key,
        name=closed.name,
        followed=followed[number],
        reads=read.requests,
        read_ms=read.ms,
    )
