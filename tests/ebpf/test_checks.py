"""What is said of the eBPF programs' figures, without a kernel that runs any."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ebpf.diskstats import device_of_number, disk_counts, disk_window, partition_sectors
from ebpf.iolat import io_latency_checks
from ebpf.ladder import ladder_checks
from ebpf.losses import losses_words, unseen_verdict
from ebpf.request_cost import cost_checks
from ebpf.requests import attribution_checks
from ebpf.tail import record_checks
from ebpf.writes import write_checks
from ground.errors import UsageError
from ground.results.checks import Check, Verdict
from ground.results.histogram import Histogram
from ground.results.io_latency import DiskWindow, IoKind, IoRow, ProgramCost
from ground.results.off_cpu import OffCpu
from ground.system.diskstats import DiskCount, DiskCounts
from ioflame.analysis.writes import write_cost_checks
from tests.tails import naps
from tests.viz.observers import attributed, attribution, io_latency, ladder, of_several, off_cpu, write_ladder

_CHECKS: Mapping[str, Callable[[Any], Iterable[Check]]] = {
    "iolat": io_latency_checks, "requests": attribution_checks, "ladder": ladder_checks, "tail": record_checks,
    "writes": lambda made: [*write_checks(made), *write_cost_checks(made)], "offcpu": OffCpu.checks,
}  # fmt: skip
_SOUND: Mapping[str, Any] = {
    "iolat": io_latency(),  # 500 reads of the process and 7 of others; the device counted 507
    "requests": attribution(),
    "ladder": replace(ladder(), end_ns=10**9 + 8000 * 104_000),  # one thread that does nothing else
    "tail": naps(2000)[0],
    "writes": write_ladder(),
    "offcpu": off_cpu(),
}


def said(of: str, **instead: object) -> dict[str, Check]:
    """The checks of an instrument by what they are of; instead: fields of a result that is sound."""
    return {check.name.removeprefix(f"{of} "): check for check in _CHECKS[of](replace(_SOUND[of], **instead))}


def reads(inner: int, outer: int | None = None, ms: int = 74) -> DiskWindow:
    """A device that only reads: so many times within the window, and with its edges."""
    counts = (DiskCount(count, 0, 8 * count, ms) for count in (inner, inner if outer is None else outer))
    return DiskWindow(*(DiskCounts(count, DiskCount(), DiskCount(), DiskCount()) for count in counts))


def device_of_requests(**instead: DiskCount) -> DiskWindow:
    """The device of `attribution()`, but that it counted otherwise."""
    counts = replace(_SOUND["requests"].diskstats.outer, **instead)
    return DiskWindow(counts, counts)


@pytest.mark.parametrize("of", _SOUND)
def test_a_sound_window_has_nothing_to_complain_of(of: str) -> None:
    assert {check.verdict for check in said(of).values()} == {Verdict.OK}


_OTHERS = {"rows": [row for row in io_latency().rows if row.owner == "others"]}
_UNKNOWN = {"rows": [*attribution().rows, attributed("read", "unknown", 200)]}
_IDLE = {name: replace(total, requests=0) for name, total in attribution().totals.items()}
_MAPPED = {
    "device": replace(attribution().device, name="dm-0"), "facts": {"flushing_writes": 4},
    "diskstats": device_of_requests(write=DiskCount(34, 0, 26 * 16)),
}  # fmt: skip
_COSTS = {
    "costs": [ProgramCost("io_start", 511, 511_000)],
    "totals": {name: replace(total, device_ns=511 * 40_000) for name, total in attribution().totals.items()},
}
_STAGES = ladder().stages
_CLASSES, _PARTS = of_several(ladder()).classes, of_several(ladder()).several
assert _PARTS is not None
_LEADER, _FOLLOWER = write_ladder().roles


@pytest.mark.parametrize(
    ("of", "instead", "name", "verdict", "words"),
    [
        ("iolat", {}, "coverage", Verdict.OK, "507 reads of 507 in diskstats"),
        ("iolat", {"rows": []}, "events", Verdict.FAILED, "an empty result"),
        ("iolat", _OTHERS, "events", Verdict.FAILED, "no request of process 42 among 7"),
        ("iolat", {**_OTHERS, "backend": "bcc"}, "events", Verdict.NOTE, ""),
        ("iolat", {"diskstats": reads(5000)}, "coverage", Verdict.FAILED, "507 reads of 5,000 in diskstats"),
        ("iolat", {"diskstats": reads(540), "backend": "bpftrace"}, "coverage", Verdict.WARN, ""),
        ("iolat", {"diskstats": reads(400, 600)}, "coverage", Verdict.OK, "507 reads of 400 to 600 in diskstats"),
        ("iolat", {"diskstats": None}, "coverage", Verdict.NOTE, ""),
        ("iolat", {"losses": {}, "backend": "bcc"}, "losses", Verdict.NOTE, ""),
        ("iolat", {"losses": {"no_start": 2}}, "losses", Verdict.NOTE, ""),
        ("iolat", {"losses": {"no_start": 6, "no_end": 4}}, "losses", Verdict.WARN, ""),
        ("iolat", {"losses": {"missed": 1, "no_start": 9}}, "losses", Verdict.WARN, ""),
        ("iolat", {"losses": {"missed": 11}}, "losses", Verdict.FAILED, ""),
        ("iolat", {"losses": {"lost_start": 1}}, "losses", Verdict.FAILED, ""),
        ("iolat", {"losses": {"missed": 50}, "backend": "bpftrace"}, "losses", Verdict.WARN, ""),
        ("iolat", {"losses": {"missed": 51}, "backend": "bpftrace"}, "losses", Verdict.FAILED, ""),
        ("iolat", {"facts": {"requeued": 100}}, "requeued", Verdict.NOTE, "100 times in 507 requests"),
        ("iolat", {"facts": {"held_back": 9}}, "IO limit", Verdict.NOTE, "9 requests"),
        ("iolat", {"facts": {"processes_ended": 1}}, "processes", Verdict.NOTE, "1 ended"),
        ("requests", {}, "coverage", Verdict.OK, "477 reads of 477 (3,907,584 of 3,907,584 B), 30 writes of 30 "
         "(212,992 of 212,992 B), 4 flushes of 4 in diskstats"),
        ("requests", {"diskstats": device_of_requests(read=DiskCount(5000, 0, 5000 * 16))}, "coverage",
         Verdict.FAILED, ""),
        ("requests", {"diskstats": device_of_requests(write=DiskCount(5000, 0, 5000 * 16))}, "coverage",
         Verdict.FAILED, ""),
        ("requests", {"diskstats": device_of_requests(flush=DiskCount(5000))}, "coverage", Verdict.FAILED, ""),
        # All of the requests, and not all of their bytes.
        ("requests", {"diskstats": device_of_requests(read=DiskCount(477, 0, 477 * 16 * 1000))}, "coverage",
         Verdict.FAILED, ""),
        ("requests", _MAPPED, "coverage", Verdict.OK, "30 writes and 4 again that flush first of 34"),
        ("requests", {"diskstats": None}, "coverage", Verdict.NOTE, "echo 1 > /sys/block/vda/queue/iostats"),
        ("requests", {"losses": {"no_end": 1}}, "losses", Verdict.NOTE, ""),
        ("requests", {"losses": {"missed": 1}}, "losses", Verdict.NOTE, ""),
        ("requests", {"losses": {"no_start": 9}}, "losses", Verdict.WARN, ""),
        ("requests", {"losses": {"no_start": 40}}, "losses", Verdict.FAILED, ""),
        ("requests", {"losses": {"lost_record": 1}}, "losses", Verdict.FAILED, ""),
        ("requests", {"losses": {"no_stack": 2}}, "losses", Verdict.NOTE, ""),
        ("requests", {"losses": {"not_kept": 1}}, "losses", Verdict.FAILED, ""),
        ("requests", _UNKNOWN, "unknown", Verdict.WARN, "200 of"),
        ("requests", {**_UNKNOWN, "facts": {"direct_calls_seen": 0}}, "unknown", Verdict.WARN,
         "does not show the files of direct IO"),
        ("requests", {"unlisted": 3}, "unlisted", Verdict.NOTE, ""),
        ("requests", {"moved": 5}, "moved", Verdict.NOTE, ""),
        ("requests", {"unnamed": 7}, "unnamed", Verdict.NOTE, ""),
        ("requests", {"several_files": 2}, "merged", Verdict.NOTE, ""),
        ("requests", {"notes": ["no MANIFEST"]}, "files", Verdict.NOTE, "no MANIFEST"),
        ("requests", {"failed": "it may not be read"}, "files", Verdict.WARN, ""),
        ("requests", _COSTS, "cost", Verdict.OK, "at least 1.00 us of CPU per request"),
        ("requests", {"rows": [], "totals": _IDLE, "diskstats": None}, "requests", Verdict.NOTE,
         "none ended on vda in 5.0 s"),
        ("ladder", {"stages": _STAGES[1:]}, "sum", Verdict.FAILED, "parts 92.00 us, query 100.00 us"),
        ("ladder", {"stages": [replace(_STAGES[0], count=999), *_STAGES[1:]]}, "sum", Verdict.FAILED,
         "not of the same queries: get_pre"),
        ("ladder", {"classes": _CLASSES, "several": replace(_PARTS, parts=_PARTS.parts[1:])}, "sum of several",
         Verdict.FAILED, "not of the same queries, or overlap"),
        # Put together from parts: it is called what it is.
        ("tail", {}, "cost", Verdict.OK,
         "at least, estimated: traps 12,000 queries/s x 1.25 us: 0.7 % of a CPU; programs, measured"),
        ("tail", {"pilot": replace(_SOUND["tail"].pilot, trap_share=0.04)}, "cost", Verdict.WARN, ""),
        ("tail", {"losses": {"lost_slow": 3}}, "losses", Verdict.WARN, ""),
        ("tail", {"losses": {"unread": 3}}, "losses", Verdict.FAILED, ""),
        ("tail", {"losses": {"missed_in": 3}}, "oddities", Verdict.NOTE, ""),
        ("tail", {"losses": {"missed": 1}}, "missed", Verdict.NOTE, "on that CPU: 1, in 2,000 queries"),
        ("tail", {"losses": {"missed": 40}}, "missed", Verdict.WARN, ""),
        ("tail", {"losses": {"missed": 41}}, "missed", Verdict.FAILED, ""),
        ("tail", {"still_open": 1}, "oddities", Verdict.NOTE, ""),
        ("tail", {"uneven": 2}, "sum", Verdict.FAILED, ""),
        ("tail", {"process_ended": True}, "window", Verdict.WARN, ""),
        ("tail", {"process_ended": True, "ended_soon_s": 0.8}, "window", Verdict.FAILED, ""),
        ("tail", {"histogram": Histogram()}, "queries", Verdict.FAILED, ""),
        ("writes", {"roles": []}, "followed", Verdict.FAILED, ""),
        ("writes", {"end_ns": 10**9 + 10**6}, "window", Verdict.FAILED, ""),
        ("writes", {"process_ended": True}, "window", Verdict.WARN, ""),
        ("writes", {"grouped": 200}, "groups", Verdict.WARN, ""),
        ("writes", {"notes": ["few stages: ..."]}, "stages", Verdict.NOTE, ""),
        ("writes", {"missing": ["launch"]}, "stages", Verdict.NOTE, ""),
        ("writes", {"wake_ups": False}, "wake-ups", Verdict.NOTE, ""),
        ("writes", {}, "losses", Verdict.OK, "none"),
        ("writes", {"losses": {"lost_wait": 1}}, "losses", Verdict.FAILED,
         "lost_wait 1; a map of the programs was full"),
        ("writes", {"losses": {"nested": 1}}, "oddities", Verdict.NOTE, "nested 1"),
        ("writes", {"roles": [_LEADER, replace(_FOLLOWER, name="role_unknown")]}, "roles", Verdict.WARN, ""),
        ("writes", {"roles": [replace(role, own_ns=100_000 * role.count) for role in (_LEADER, _FOLLOWER)]}, "cost",
         Verdict.WARN, ""),
        # Without turns the second before the window is set beside it.
        ("writes", {"pilot": replace(write_ladder().pilot, mean_ns=190_000.0)}, "cost", Verdict.WARN,
         "in the second before the window"),
        ("offcpu", {}, "on-CPU + off-CPU", Verdict.OK, "100.00% of 3.000 s in 3 threads"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(of: str, instead: dict[str, object], name: str, verdict: Verdict, words: str) -> None:
    check = said(of, **instead)[name]
    assert check.verdict is verdict and words in f"{check.value}; {check.means}; {check.mend}"


def test_what_device_mapper_counts_twice_is_compared_as_it_counts() -> None:
    found = io_latency()
    writes = IoRow("write", "process", Histogram(), Histogram(), replace(found.rows[0].total, count=45))
    flushing = IoKind("write", ["sync", "fua", "preflush"], 4096, "process", 5, 10)
    empty = IoKind("write", ["sync", "preflush"], 0, "process", 9, 10)
    counted = DiskCounts(DiskCount(507, 0, 8 * 507, 74), DiskCount(50, 0, 400), DiskCount(), DiskCount())
    instead = {
        "rows": [*found.rows, writes], "kinds": [flushing, empty], "diskstats": DiskWindow(counted, counted),
    }  # fmt: skip
    assert said("iolat", **instead)["coverage"].value == "507 reads of 507, 45 writes of 50 in diskstats"
    mapped = said("iolat", **instead, device=replace(found.device, name="dm-3"))["coverage"]
    assert mapped.verdict is Verdict.OK
    assert mapped.value.startswith("507 reads of 507, 50 writes of 50 in diskstats (of the writes, 5 that flush first")


def test_the_mean_of_two_clocks_is_compared_where_there_are_reads_enough() -> None:
    few = io_latency().rows
    assert "mean" not in said("iolat")
    rows = [replace(row, total=replace(row.total, count=2 * row.total.count)) for row in few]
    mean_ms = sum(row.total.sum_ns for row in few) / 1e6
    same = said("iolat", rows=rows, diskstats=reads(1014, ms=round(mean_ms)))["mean"]
    assert same.verdict is Verdict.OK and "diskstats" in same.value
    assert said("iolat", rows=rows, diskstats=reads(1014, ms=round(2 * mean_ms)))["mean"].verdict is Verdict.WARN


def test_the_cost_of_a_request_is_said() -> None:
    (told,) = cost_checks("requests", [ProgramCost("io_start", 500, 511_000)], 511, 511 * 40_000.0)
    assert (told.name, told.verdict) == ("requests cost", Verdict.OK)
    # The programs alone: what it costs is not less, and nobody measured how much more.
    own = "at least 1.00 us of CPU per request, by the kernel's account of the programs alone"
    assert told.value == f"{own}: 2.5 % of the 40.0 us that one takes"
    (dear,) = cost_checks("requests", [ProgramCost("io_start", 500, 511_000)], 511, 511 * 4_000.0)
    assert (dear.verdict, "slower by at least as much" in dear.means) == (Verdict.NOTE, True)
    unknown = cost_checks("requests", [], 511, 1.0), cost_checks("requests", [ProgramCost("io_start", 0, 0)], 0, 0.0)
    assert not [check for checks in unknown for check in checks]


def test_counts_of_0_are_left_out_and_own_words_come_first() -> None:
    losses = {"no_end": 1200, "negative": 0, "overflow": 2, "lost_rung": 3}
    words = "ended without an end that was seen: 1,200, longer than 137 s: 2, lost_rung 3"
    assert losses_words(losses, {"overflow": "longer than 137 s:"}) == words
    assert losses_words({"no_end": 0}) == ""


@pytest.mark.parametrize(
    ("lost", "verdict"), [(2, Verdict.NOTE), (10, Verdict.NOTE), (11, Verdict.WARN), (200, Verdict.WARN), (201, None)]
)
def test_few_unseen_requests_are_a_note_and_many_are_a_loss(lost: int, verdict: Verdict | None) -> None:
    assert unseen_verdict(lost, 10_000) is verdict
    assert unseen_verdict(2, 10) is Verdict.NOTE


def test_what_the_kernel_counted_in_a_window_lies_between_its_edges() -> None:
    at = [reads(count).inner for count in (10, 12, 50, 55)]
    found = disk_window((at[0], at[1]), (at[2], at[3]))
    assert found is not None and (found.inner.read.requests, found.outer.read.requests) == (38, 45)
    assert disk_window((at[0], None), (at[2], at[3])) is None


def test_a_device_is_known_by_its_number() -> None:
    with pytest.raises(UsageError, match="4095:7 is no block device"):
        device_of_number(4095, 7)
    # Loop devices and zrams come and go with tests beside this one.
    numbers = [path.name for path in Path("/sys/dev/block").iterdir() if "virtual" not in path.resolve().parts]
    for major, minor in (map(int, name.split(":")) for name in numbers):
        device = device_of_number(major, minor)
        assert Path(f"/sys/dev/block/{major}:{minor}").resolve().name == device.name
        sectors = partition_sectors(device)
        assert (sectors is not None) == device.partition and (sectors is None or sectors[0] < sectors[1])
        counted = disk_counts(device)
        assert counted is None or counted.read.requests >= 0


def test_a_thread_whose_parts_are_not_its_whole_fails_alone() -> None:
    sound = off_cpu()
    # One of 60 sleeps, and what it waited before is not there: 1.6 % of all threads' time.
    others = [replace(sound.threads[0], tid=tid) for tid in range(10, 69)]
    total = {**sound.states, "io": replace(sound.states["io"], ns=59 * 700 * 10**6)}
    total["woken"] = replace(sound.states["woken"], ns=59 * 100 * 10**6)
    total["condition"] = replace(sound.states["condition"], ns=370 * 10**6)
    sleeper = replace(sound.threads[2], off_ns={"condition": 370 * 10**6})
    short = said("offcpu", threads=[*others, sleeper], states=total)["on-CPU + off-CPU"]
    assert short.verdict is Verdict.FAILED
    assert short.value == "98.95% of 60.000 s in 60 threads; 37.00% of rocksdb:low0 (3)'s"
    # A number that a second thread had in the same window is two parts of one whole.
    halves = [
        replace(sound.threads[0], end_ns=5 * 10**8, ended=True),
        replace(sound.threads[0], start_ns=5 * 10**8, started=True, ran_ns=0, off_ns={}),
    ]
    assert said("offcpu", threads=[*halves, *sound.threads[1:]])["on-CPU + off-CPU"].verdict is Verdict.OK
