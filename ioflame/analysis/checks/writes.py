"""Is a workload that writes what it is to be: the writer at its rate, readers counted apart, no stalls, debt told?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ground.results.checks import Check, Verdict
from ground.results.record import RunRecord
from ground.results.roles import READER, WRITER
from ground.settings import Setting

_RATE = 0.05
# Two accounts of one process, and how much sooner than the readers one of them may end.
_COUNT = 0.005
_TAIL_SECONDS = 3
# Of readers: their lines in the log. A writer's Puts each go to the WAL.
_FEW_CALLS = 0.01


def write_proofs(
    record: RunRecord, rates: Sequence[int], totals: Mapping[int, Sequence[tuple[float, int]]], counts_stalls: bool
) -> Iterator[Check]:
    """Nothing for a workload that only reads.

    rates:         queries of each second, the writer's operations left out
    totals:        by thread, seconds and operations so far
    counts_stalls: the engine states for how long it held its writers back
    """
    if record.expected.tree == "unchanged":
        return
    if record.expected.write_rate:
        writer = totals.get(0, ())
        yield _rate_check(record, writer)
        yield _count_check(record, rates, totals)
        yield _thread_check(record)
    yield _stall_check(record, counts_stalls)
    if "debt_seconds" in record.writes:
        written = f"{record.writes['debt_gb']:.2f} GB written in " if "debt_gb" in record.writes else ""
        yield Check(
            "debt", Verdict.OK, f"{written}{record.writes['debt_seconds']:.0f} s, until no compaction was pending"
        )


def _rate_check(record: RunRecord, writer: Sequence[tuple[float, int]]) -> Check:
    """The writer's bytes against its limit, over all of its life."""
    data, keys = record.database.data_bytes, record.database.num_keys
    if not data or not keys:
        return Check("write rate", Verdict.WARN, "unknown", "the record does not say how large the database is")
    if not writer:
        return Check("write rate", Verdict.WARN, "unknown", "the client printed no line of its writer")
    seconds, operations = writer[-1]
    rate = operations * (data // keys) / seconds
    held = abs(rate / record.expected.write_rate - 1) <= _RATE
    return Check(
        "write rate",
        Verdict.OK if held else Verdict.WARN,
        f"{rate / 2**20:.2f} MiB/s of {record.expected.write_rate / 2**20:.2f} asked, "
        f"{operations:,} operations in {seconds:.0f} s",
        "" if held else "the writer did not get the CPU or the disk it needs: queries had it instead",
    )


def _count_check(record: RunRecord, rates: Sequence[int], totals: Mapping[int, Sequence[tuple[float, int]]]) -> Check:
    """Readers' operations three ways: by their own lines, by the client's report, by the closing line."""
    closing = record.engine_result.get("operations")
    own = sum(lines[-1][1] for thread, lines in totals.items() if thread and lines)
    report = sum(rates)
    if closing is None or not own:
        return Check("readers' operations", Verdict.WARN, "not compared", "the closing line is missing from the log")
    # Lines and report end up to a second before the readers do.
    fits = own <= closing * (1 + _COUNT) and report <= closing * (1 + _COUNT)
    tail = max(closing - report, closing - own) <= _TAIL_SECONDS * max(rates, default=0)
    return Check(
        "readers' operations",
        Verdict.OK if fits and tail else Verdict.FAILED,
        f"{closing:,.0f} by the closing line; {report:,} by the report without the writer and {own:,} by their own "
        "lines, which end up to three seconds sooner",
        "" if fits and tail else "queries are counted with another thread's operations, or some are lost",
    )


def _thread_check(record: RunRecord) -> Check:
    """The thread taken for the writer by its place is the one that calls write."""
    windows = [window.counters.roles for window in record.windows if window.counters.roles]
    calls = {role: sum(own[role].write_calls for own in windows if role in own) for role in (READER, WRITER)}
    right = calls[READER] <= _FEW_CALLS * calls[WRITER]
    return Check(
        "the writer's thread",
        Verdict.OK if right else Verdict.FAILED,
        f"{calls[WRITER]:,} calls of write, the readers {calls[READER]:,}",
        "" if right else "readers and the writer cannot be separated: CPU per query covers both",
    )


def _stall_check(record: RunRecord, counts_stalls: bool) -> Check:
    if not counts_stalls:
        return Check(
            "stalls",
            Verdict.NOTE,
            f"{record.engine} counts none",
            Setting.COLLECT.to("'perf offcpu'") + " shows where its writers wait",
        )
    stalled, uptime = record.writes.get("stall_seconds"), record.writes.get("uptime", 0.0)
    if stalled is None:
        return Check("stalls", Verdict.WARN, "not stated", "the closing statistics in the log have none")
    value = f"{stalled:.1f} s of {uptime:.0f}, {record.writes.get('stalls', 0):.0f} of them counted"
    if not stalled:
        return Check("stalls", Verdict.OK, f"none in {uptime:.0f} s: L0 stayed below its triggers")
    # A writer without a limit is meant to meet them.
    if not record.expected.write_rate:
        return Check("stalls", Verdict.NOTE, value, "writes were held back for compaction: the rate is the tree's")
    return Check("stalls", Verdict.WARN, value, "writes were held back: the tree did not keep up with its writer")
