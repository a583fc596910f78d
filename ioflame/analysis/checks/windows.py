"""Whether the windows of a run may be put beside each other: warm-up, drift, others' reads, two accounts of CPU."""

from __future__ import annotations

from collections.abc import Iterator

from ground.results.checks import Check, Verdict
from ground.results.metrics import has_one_rate, host_changed, metrics_of, window_metrics
from ground.results.record import RunRecord, Window
from ground.text.titles import title_of
from ioflame.analysis.others import TICK_NS, others_in
from ioflame.analysis.rounds import by_round

_DRIFT = 0.10
_STEAL_PCT = 2.0
_OBSERVER = 0.10
# CPU of a stopped engine, as a share of the window: observing it costs it some.
_STILL = 0.001
_ACCOUNTING = 0.02


def window_checks(record: RunRecord) -> Iterator[Check]:
    for window in record.windows:
        if window.kind == "warm-up":
            reached = "bound" in window.note
            yield Check("warm-up", Verdict.NOTE if reached else Verdict.OK, f"{window.seconds:.1f} s: {window.note}")
    if record.target is None or record.target.count:
        windows = [w for w in record.windows if w.kind != "warm-up"]
        # Who interrupts a run ends the client before it has reported the last window, of which no figure is made then.
        if record.missing and windows and windows[-1].counters.queries is None:
            windows.pop()
        yield from _query_check(windows)
    plain = [w for w in record.windows if w.kind == "plain"]
    if not plain:
        return
    yield from _others_checks(record, plain)
    sampled = has_one_rate(record)
    if not sampled:
        yield from _drift_check(record, plain)
    yield from _accounting_check(plain)
    if not sampled:
        yield from _observer_check(record, plain)
    steal = metrics_of(record, plain).get("stealPct", 0.0)
    if steal > _STEAL_PCT:
        yield Check("steal", Verdict.WARN, f"{steal:.1f}% of a CPU", "other machines on this host took CPU time")


def _others_checks(record: RunRecord, plain: list[Window]) -> Iterator[Check]:
    """Reads of others, and their CPU; beside a service there are always some."""
    others = others_in(record, plain)
    per_query = f", {others.bytes_per_query:,.0f} bytes a query" if any(w.counters.queries for w in plain) else ""
    yield Check(
        "others' reads",
        Verdict.WARN if others.read_much else Verdict.OK,
        f"{others.read_share:.1%} of the bytes read from the device{per_query}",
        "IOPS and reqsz count them too" if others.read_much else "",
    )
    if others.cpus is None:
        return
    if others.are_busy:
        beside = record.target is not None
        means = "QPS, latency, waits and CPU per query are those of a shared host"
        mend = "" if beside else "run it again on a quieter host"
        yield Check("others' CPU", Verdict.NOTE if beside else Verdict.WARN, others.cpu_words, means, mend)
    else:
        yield Check("others' CPU", Verdict.OK, others.cpu_words)


def _drift_check(record: RunRecord, plain: list[Window]) -> Iterator[Check]:
    """In turns all have seen the same minutes, and what changed is in every interval; windows have not."""
    if any(window.round for window in plain):
        qps = record.intervals.get("qps")
        rounds = [
            metrics.get("qps") for metrics in (window_metrics(turns, 1) for turns in by_round(plain, "plain").values())
        ]
        known = [rate for rate in rounds if rate]
        if qps is None or not known:
            return
        reach = (qps.high - qps.low) / 2 / qps.estimate
        words = f"QPS of the rounds from {min(known):,.0f} to {max(known):,.0f}: known to {reach:.1%}"
    else:
        known = [rate for rate in (_qps(window, record.threads) for window in plain) if rate]
        if len(known) < 2:
            return
        reach = max(known) / min(known) - 1
        words = f"QPS of the baseline windows differ by {reach:.1%}"
    far = reach > _DRIFT
    yield Check(
        "drift",
        Verdict.WARN if far else Verdict.OK,
        words,
        "the device or the host changed under the run" if far else "",
        "run it again on a quieter machine" if far else "",
    )


def _query_check(windows: list[Window]) -> Iterator[Check]:
    """A window in which the engine did nothing has no figures, whatever it was watched with."""
    if not windows:
        return
    # Between two lines of the engine's report queries are interpolated, also over a standstill: without CPU none ended.
    still = [w for w in windows if w.counters.cpu_ns < _STILL * w.seconds * 1e9]
    empty = [w for w in windows if w in still or not w.counters.queries]
    if not empty:
        yield Check("queries", Verdict.OK, f"in each of the {len(windows)} windows")
        return
    yield Check(
        "queries",
        Verdict.FAILED,
        f"none that is known of in {len(empty)} of {len(windows)} windows: "
        + ", ".join(dict.fromkeys(title_of(w.kind) for w in empty)),
        "they have no figures: "
        + ("the engine used next to no CPU, so it did not run" if len(still) == len(empty)
           else "the engine's report of finished queries does not cover them"),
    )  # fmt: skip


def _accounting_check(plain: list[Window]) -> Iterator[Check]:
    """The scheduler's CPU time against the process's own account: the two must agree."""
    cpu = sum(w.counters.cpu_ns for w in plain)
    accounted = sum(w.counters.accounted_ns for w in plain)
    if not cpu or not accounted:
        return
    difference = accounted / cpu - 1
    # The account has ticks of 10 ms, one at each edge of a window.
    closes = abs(accounted - cpu) <= max(_ACCOUNTING * cpu, 2 * TICK_NS * len(plain))
    yield Check(
        "CPU accounting",
        Verdict.OK if closes else Verdict.WARN,
        f"schedstat and getrusage differ by {difference:+.1%} in the baseline windows",
        "" if closes else "CPU per query is uncertain by as much",
    )


def _observer_check(record: RunRecord, plain: list[Window]) -> Iterator[Check]:
    """How far the windows that gave the shares were from those that gave the CPU per query."""
    beside = window_metrics(plain, record.threads)
    within = window_metrics([w for w in record.windows if w.kind == "perf"], record.threads)
    cost = next((cost.qps_ratio for cost in record.costs if cost.kind == "perf"), None)
    if "qps" not in beside or "qps" not in within:
        return
    cpu = f"CPU per query {within['cpuPer']:.2f} against {beside['cpuPer']:.2f} us"
    if cost is None:
        rate = within["qps"] / beside["qps"] - 1
        yield Check("observer", Verdict.OK, f"with perf attached QPS {rate:+.1%}, {cpu}: too few windows to say more")
        return
    host = record.host_change
    if host is not None and host_changed(record):
        own, n = host.qps_ratio, host.qps_ratio.n
        yield Check(
            "observer",
            Verdict.NOTE,
            f"what perf cost is not known: QPS of {n} turns with nothing attached differed by {own.estimate - 1:+.1%} "
            f"[{own.low - 1:+.1%}, {own.high - 1:+.1%}]",
            "this host changed by itself from turn to turn",
        )
        return
    # A difference that is none is no observer's.
    far = abs(cost.estimate - 1) > _OBSERVER and cost.leaves_one
    means = "" if not far else "the shares are of windows with perf, which differed from the unobserved ones"
    if far and cost.estimate > 1:
        means += "; faster under a sampling timer is real on an idle VM: it keeps the CPU from halting"
    yield Check(
        "observer",
        Verdict.WARN if far else Verdict.OK,
        f"with perf attached QPS {cost.estimate - 1:+.1%} [{cost.low - 1:+.1%}, {cost.high - 1:+.1%}], {cpu}",
        means,
    )


def _qps(window: Window, threads: int) -> float | None:
    return window_metrics([window], threads).get("qps")
