"""bpftrace scripts as Observers, and their output as it really comes.

bpftrace cannot speak the control protocol: it takes no orders. A script's window is opened and closed by a thread of
ours that renames itself: nothing else reaches a script at once, and the event is so rare that it costs nothing.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from ebpf.trial import Trial
from ground.errors import HostError, IoflameError, MeasurementError
from ground.results.histogram import Histogram
from ground.system.held_process import HeldProcess
from ground.system.process import Child, Children, capture

# Keys of a map, beyond which bpftrace drops what is new without a word (its own default is 4096), and string length.
# By their names until bpftrace 0.20, and since.
_SETTINGS = {
    **dict.fromkeys(("BPFTRACE_MAP_KEYS_MAX", "BPFTRACE_MAX_MAP_KEYS"), "65536"),
    **dict.fromkeys(("BPFTRACE_STRLEN", "BPFTRACE_MAX_STRLEN"), "16"),
}
_READY_SECONDS = 60.0
# bpftrace attaches its probes one by one, and says nothing when the last of them sits.
_SETTLE_SECONDS = 1.0
_TRACEFS = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
_FIRST_PID_NAMESPACE = 0xEFFFFFFC
# min() of bpftrace 0.17 keeps nothing above 2^32 - 1: `_shortest` maps hold how far below this the shortest is, ns.
SHORTEST_BELOW = 1 << 62
# Of a power of two, as in `bpf/common.h`.
_BUCKETS = 32

_Seen = TypeVar("_Seen")
_Row = TypeVar("_Row")

# One map: rows of (key parts, value).
MapRows = list[tuple[tuple[str, ...], int]]


def script(name: str) -> Path:
    """The script of that name; made to be read and changed."""
    return Path(__file__).parent / "scripts" / f"{name}.bt"


class BpftraceRun:
    """One run of a script: started, its window opened and closed, ended with SIGINT so that it prints its maps.

    HostError unless the kernel's numbers of processes, which is what bpftrace sees, are ours.

    name:      of the script
    arguments: its positional parameters; `CONTROL` is replaced by the thread that opens and closes
    out:       where the result goes; what bpftrace prints and says goes beside it
    processes: that the script learns of once its probes sit: those of now
    """

    def __init__(
        self,
        children: Children,
        name: str,
        arguments: Sequence[str | int],
        out: Path,
        processes: Callable[[], Iterable[int]] = tuple,
    ) -> None:
        if os.stat("/proc/self/ns/pid").st_ino != _FIRST_PID_NAMESPACE:  # noqa: PTH116 - inode of a namespace
            raise HostError(
                "bpftrace sees the numbers that processes have on the host, and this is another pid namespace",
                mend="EBPF=co-re, or run it on the host",
            )
        self._children = children
        self._name = f"bpftrace {name}"
        self._path = script(name)
        self._arguments = list(map(str, arguments))
        self._processes = processes
        self._out = out.with_suffix(".bpftrace")
        self._log = out.with_suffix(".log")
        self._child: Child | None = None

    def attach(self) -> None:
        """Starts it and returns when its probes sit. HostError with bpftrace's own words where they do not."""
        # The thread that attaches is the one that opens and closes: one schedule drives an observer.
        control = str(threading.get_native_id())
        arguments = [control if argument == "CONTROL" else argument for argument in self._arguments]
        settings = [f"{name}={value}" for name, value in _SETTINGS.items()]
        argv = ["env", *settings, "bpftrace", "-B", "line", "-f", "json", str(self._path), *arguments]
        self._child = self._children.start(
            self._name, [*_tracefs_prefix(), *argv], stdout=self._out, stderr=self._log, stop_signal=signal.SIGINT
        )
        deadline = time.monotonic() + _READY_SECONDS
        while '"ready' not in self.text:
            if not self._child.running or time.monotonic() > deadline:
                raise HostError(
                    f"{self._name} did not start ({self._child.describe_end()}): {self._words()}", mend="ioflame doctor"
                )
            time.sleep(0.05)
        time.sleep(_SETTLE_SECONDS)
        told: set[int] = set()
        # A look may miss one whose sibling ends at that moment; what is forked by one that was told of is known.
        while new := set(self._processes()) - told:
            for pid in new:
                _tell(pid)
            told |= new

    def open(self) -> int:
        """CLOCK_MONOTONIC after it, ns."""
        _rename("ioflame-open")
        return time.monotonic_ns()

    def close(self) -> int:
        _rename("ioflame-close")
        return time.monotonic_ns()

    def detach(self) -> None:
        """Ends it; its maps are whole in the output afterwards. MeasurementError when it failed."""
        if self._child is None:
            return
        early = self._child.returncode
        # Now and then bpftrace 0.17 does not wake up for a SIGINT; it does for the next one.
        code = self._child.stop(grace=60, asks=6)
        if early is not None or code not in (0, -signal.SIGINT):
            raise MeasurementError(f"{self._name} failed ({self._child.describe_end()}): {self._words()}")

    @property
    def text(self) -> str:
        """What it has printed."""
        return self._out.read_text(encoding="utf-8", errors="replace")

    def _words(self) -> str:
        return words_of(self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else "")


@dataclass(frozen=True)
class Edge(Generic[_Seen]):
    """An edge of the window: its time (CLOCK_MONOTONIC, ns), and what was to be seen just before and just after it."""

    before: _Seen
    ns: int
    after: _Seen


class ToolRun(Protocol):
    """One run of a tool that somebody else made, as `BpftraceRun` has it."""

    def attach(self) -> None: ...

    def open(self) -> int: ...

    def close(self) -> int: ...

    def detach(self) -> None: ...


class ToolObserver(Generic[_Seen]):
    """A tool as an Observer.

    look:    what is to be seen beside it at each edge of its window
    result:  what is written to `out` as JSON, from both edges, once it has ended
    process: the one that it knows by its number
    """

    takes_turns = False

    def __init__(
        self,
        kind: str,
        what: str,
        run: ToolRun,
        look: Callable[[], _Seen],
        result: Callable[[Edge[_Seen], Edge[_Seen]], object],
        out: Path,
        process: HeldProcess | None = None,
    ) -> None:
        self.kind, self.what = kind, what
        self._process = process
        self._run, self._look, self._result, self._out = run, look, result, out
        self._opened: Edge[_Seen] | None = None
        self._closed: Edge[_Seen] | None = None

    def attach(self) -> None:
        self._run.attach()
        if self._process is not None and not self._process.alive:
            raise MeasurementError(f"process {self._process.pid} ended before it was measured")

    def open(self) -> None:
        self._opened = Edge(self._look(), self._run.open(), self._look())

    def close(self) -> None:
        self._closed = Edge(self._look(), self._run.close(), self._look())

    def detach(self) -> None:
        self._run.detach()
        if self._opened is not None and self._closed is not None:
            result = self._result(self._opened, self._closed)
            self._out.write_bytes(msgspec.json.encode(result) + b"\n")


def words_of(stderr: str) -> str:
    """What bpftrace said, without its usual words on a limit that has had no effect since Linux 5.11."""
    lines = [line for line in stderr.splitlines() if line.strip() and "RLIMIT_MEMLOCK" not in line]
    return " ".join(lines)[-600:] or "no error output"


def read_maps(text: str) -> Mapping[str, MapRows]:
    """Maps by name from `-f json` output; a map without keys has one row with an empty key.

    Blank lines and words between the JSON are skipped. A key that is printed twice has one row each time: bpftrace
    compares what lies behind a string's end as well. Keys are joined with commas in the output.
    """
    maps: dict[str, MapRows] = {}
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        try:
            entry = json.loads(line, object_pairs_hook=_Pairs)
        except ValueError:
            continue
        fields = dict(entry)
        if fields.get("type") != "map":
            continue
        for name, value in fields["data"]:
            rows = maps.setdefault(name.removeprefix("@"), [])
            if isinstance(value, _Pairs):
                rows += [(tuple(key.split(",")), int(count)) for key, count in value]
            else:
                rows.append(((), int(value)))
    return maps


def bounds(bucket: int) -> tuple[int, int]:
    """Low (inclusive) and high (exclusive) of a log-linear bucket, ns."""
    if bucket < _BUCKETS:
        return bucket, bucket + 1
    shift = bucket // _BUCKETS - 1
    return (_BUCKETS + bucket % _BUCKETS) << shift, (_BUCKETS + bucket % _BUCKETS + 1) << shift


def histogram(counts: Mapping[int, int], count: int, sum_ns: int, least_ns: int, most_ns: int) -> Histogram:
    """A histogram of `count` durations that were counted by bucket number, but for those that `counts` lacks."""
    buckets = [(*bounds(bucket), held) for bucket, held in sorted(counts.items())]
    return Histogram(count, sum_ns, least_ns, most_ns, buckets)


def read_totals(maps: Mapping[str, MapRows]) -> dict[str, int]:
    """Each map's values added up over its keys."""
    return {name: sum(value for _, value in rows) for name, rows in maps.items()}


def read_histograms(maps: Mapping[str, MapRows], name: str, row: Callable[..., _Row]) -> dict[_Row, Histogram]:
    """Durations that a script counted: buckets in the map `name`, the rest in `name`_sum, _shortest and _max.

    row: the row that a key (its parts without the bucket) belongs to; several keys may be one row

    A key that one of the four maps lacks is left out: an update of a full or busy map fails without a word. By
    bpftrace 0.23 two CPUs that add a bucket at once lose one of their durations: where a script counts them in
    `name`_count, too, that is how many they were.
    """
    counts: dict[tuple[str, ...], Counter[int]] = defaultdict(Counter)
    for key, count in maps.get(name, []):
        counts[key[:-1]][int(key[-1])] += count
    parts = ("sum", "shortest", "max", "count")
    sums, below, most, exact = (_values(maps.get(f"{name}_{part}", [])) for part in parts)
    keys: dict[_Row, list[tuple[str, ...]]] = defaultdict(list)
    for whole in counts.keys() & sums.keys() & below.keys() & most.keys():
        keys[row(*whole)].append(whole)
    return {
        held: histogram(
            sum((counts[key] for key in merged), Counter[int]()),
            sum(sum(exact.get(key, counts[key].values())) for key in merged),
            sum(sum(sums[key]) for key in merged),
            SHORTEST_BELOW - max(max(below[key]) for key in merged),
            max(max(most[key]) for key in merged),
        )
        for held, merged in keys.items()
    }


def _values(rows: MapRows) -> dict[tuple[str, ...], list[int]]:
    values: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for key, value in rows:
        values[key].append(value)
    return values


class _Pairs(list[tuple[str, Any]]):
    """The pairs of a JSON object as written: a name may come twice."""


def _rename(name: str) -> None:
    comm = Path(f"/proc/self/task/{threading.get_native_id()}/comm")
    before = comm.read_text(encoding="utf-8", errors="surrogateescape").rstrip("\n")
    comm.write_text(name, encoding="utf-8")
    comm.write_text(before, encoding="utf-8", errors="surrogateescape")


def _tell(pid: int) -> None:
    """A number, by its binary digits: a script of bpftrace 0.17 compares a name, and cannot take it apart."""
    for digit in f"{pid:b}":
        _rename(f"ioflame-{digit}")
    _rename("ioflame-process")


def _tracefs_prefix() -> list[str]:
    """A command before bpftrace that mounts tracefs for it alone, where the host has not mounted it."""
    # To who is not root it may be there and closed: `access` says no, where `exists` would raise.
    if any(os.access(f"{root}/events/block", os.F_OK) for root in _TRACEFS):
        return []
    mount = f'mount -t tracefs tracefs {_TRACEFS[0]} && exec "$@"'
    return ["unshare", "--mount", "--", "sh", "-c", mount, "sh"]


@functools.cache
def try_bpftrace() -> Trial:
    """A tracepoint program that must attach and count."""
    if shutil.which("bpftrace") is None:
        return Trial(False, "not installed", "sudo apt-get install bpftrace")
    # An attached program that never fires looks like an empty result: the interval makes it count to one.
    program = "tracepoint:sched:sched_switch { @n = count(); } interval:ms:100 { exit(); }"
    prefix = _tracefs_prefix()
    try:
        done = capture([*prefix, "bpftrace", "-f", "json", "-e", program], timeout=30)
    except IoflameError as error:
        return Trial(False, error.what)
    counted = sum(count for _, count in read_maps(done.text).get("n", []))
    if done.returncode == 0 and counted:
        version = capture(["bpftrace", "--version"], timeout=20).text.split()
        words = f"{version[-1] if version else ''}, a tracepoint program attached and counted"
        return Trial(True, words + (" (with tracefs mounted for it alone)" if prefix else ""))
    mend = "run as root" if os.geteuid() else "mount -t tracefs tracefs /sys/kernel/tracing"
    return Trial(False, words_of(done.errors) if done.returncode else "it attached, and counted nothing", mend)
