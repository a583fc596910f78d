"""IO latency by `scripts/iolat.bt`: for hosts without clang or BTF."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ebpf.bpftrace import (
    BpftraceRun,
    Edge,
    MapRows,
    ToolObserver,
    bounds,
    read_histograms,
    read_maps,
    read_totals,
)
from ebpf.diskstats import device_of_number, disk_counts, disk_window, partition_sectors
from ground.errors import HostError
from ground.results.histogram import Histogram
from ground.results.io_latency import Device, IoKind, IoLatency, IoRow, IoSlice
from ground.system.descendants import descendants
from ground.system.diskstats import DiskCounts, whole_disk
from ground.system.observer import Observer
from ground.system.process import Children

_HOW = (
    "tracepoints block_io_start, block_rq_issue, block_io_done; requests are known by their sector, so two of one "
    "sector at a time collide, and the kernel skips an event that interrupts another (a few in 100 under load); "
    "series by whole seconds"
)
_OWNERS = {"0": "others", "1": "process"}
_WHOLE = (0, 2**63 - 1)
_SECOND = 1_000_000_000
# Letters of rwbs (block/blk-core.c, blk_fill_rwbs), after the operation.
_FLAGS = {"F": "fua", "A": "rahead", "S": "sync", "M": "meta", "U": "atomic"}
_OPERATIONS = {"R": "read", "W": "write", "D": "discard", "E": "write", "Z": "write", "N": "other"}


def bpftrace_io_latency(
    children: Children, pids: Sequence[int], with_children: bool, number: tuple[int, int], out: Path
) -> Observer:
    """The observer `iolat` on bpftrace. HostError for what the script cannot follow."""
    device = device_of_number(*number)
    if device.bio_based:
        raise HostError(
            f"{device.name} has no requests, and a bio's sector moves on its way, so bpftrace cannot follow it",
            mend="EBPF=co-re   (it follows bios by their address)",
        )
    first, end = partition_sectors(device) or _WHOLE
    arguments: list[str | int] = [_disk_number(device), first, end, "CONTROL", int(with_children)]
    run = BpftraceRun(children, "iolat", arguments, out, lambda: descendants(pids) if with_children else pids)

    def result(opened: Edge[DiskCounts | None], closed: Edge[DiskCounts | None]) -> IoLatency:
        latency = decode(run.text, device, list(pids), with_children, (opened.ns, closed.ns))
        return replace(latency, diskstats=disk_window((opened.before, opened.after), (closed.before, closed.after)))

    what = "IO latency, a bpftrace script on the block layer's tracepoints"
    return ToolObserver("iolat", what, run, lambda: disk_counts(device), result, out)


def _disk_number(device: Device) -> int:
    """The disk's dev_t, as tracepoints give it."""
    major, minor = (whole_disk(device.major, device.minor) / "dev").read_text(encoding="ascii").split(":")
    return int(major) << 20 | int(minor)


def decode(text: str, device: Device, pids: list[int], children: bool, window: tuple[int, int]) -> IoLatency:
    """The script's maps as an IoLatency without diskstats; text: bpftrace's `-f json` output."""
    maps = read_maps(text)
    one = read_totals(maps)
    ended = one.get("ended", 0)
    rows = _rows(maps)
    kinds = _kinds(maps)
    losses = {
        "no_start": one.get("no_start", 0),
        "negative": one.get("negative", 0),
        "collided": one.get("collided", 0),
        # An update of a full or busy map fails without a word: what is missing from its sum says so.
        "lost_start": ended - sum(row.total.count for row in rows),
        "lost_kind": ended - sum(kind.count for kind in kinds),
    }
    return IoLatency(
        backend="bpftrace",
        how=_HOW,
        device=device,
        pids=pids,
        children=children,
        start_ns=window[0],
        end_ns=window[1],
        rows=rows,
        kinds=kinds,
        slices=_slices(maps, window),
        losses=losses,
        facts={
            "requeued": one.get("requeued", 0),
            "merged": one.get("merged", 0),
            "processes_ended": one.get("processes_ended", 0),
        },
    )


def _operation(rwbs: str) -> tuple[str, list[str]]:
    """Operation and flags of `rwbs`: an F before the operation is a flush before it, alone or twice a flush itself."""
    flags = []
    if rwbs.startswith("F"):
        if rwbs in ("F", "FF"):
            return "flush", ["preflush"]
        flags.append("preflush")
        rwbs = rwbs[1:]
    return _OPERATIONS.get(rwbs[:1], "other"), [*flags, *(_FLAGS.get(letter, letter) for letter in rwbs[1:])]


def _rows(maps: Mapping[str, MapRows]) -> list[IoRow]:
    def row(stage: str, rwbs: str, own: str) -> tuple[str, str, str]:
        return stage, _operation(rwbs)[0], _OWNERS[own]

    took = read_histograms(maps, "took", row)

    def part(stage: str, operation: str, owner: str) -> Histogram:
        return took.get((stage, operation, owner), Histogram())

    rows = sorted((operation, owner) for stage, operation, owner in took if stage == "2")
    return [IoRow(*row, part("0", *row), part("1", *row), part("2", *row)) for row in rows]


def _buckets(counts: Iterable[tuple[int, int]]) -> list[tuple[int, int, int]]:
    return [(*bounds(bucket), count) for bucket, count in sorted(counts)]


def _kinds(maps: Mapping[str, MapRows]) -> list[IoKind]:
    counts: dict[tuple[str, str, str], int] = defaultdict(int)
    sums: dict[tuple[str, str, str], int] = defaultdict(int)
    for (rwbs, own, size), count in maps.get("kind", []):
        counts[rwbs, own, size] += count
    for (rwbs, own, size), ns in maps.get("kind_sum", []):
        sums[rwbs, own, size] += ns
    kinds = []
    for (rwbs, own, size), count in counts.items():
        operation, flags = _operation(rwbs)
        kinds.append(IoKind(operation, flags, int(size), _OWNERS[own], count, sums[rwbs, own, size]))
    return sorted(kinds, key=lambda kind: -kind.count)


def _slices(maps: Mapping[str, MapRows], window: tuple[int, int]) -> list[IoSlice]:
    held: dict[int, dict[str, dict[int, int]]] = defaultdict(lambda: {"0": {}, "1": {}})
    for (own, second, bucket), count in maps.get("reads", []):
        held[int(second)][own][int(bucket)] = count
    last = max(held, default=-1)
    return [
        IoSlice(
            min(window[0] + (second + 1) * _SECOND, window[1]),
            _buckets(held[second]["1"].items()),
            _buckets(held[second]["0"].items()),
        )
        for second in range(last + 1)
    ]
