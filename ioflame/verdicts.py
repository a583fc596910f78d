"""What a finished run can be trusted for: checks over its own record."""

from __future__ import annotations

from collections.abc import Iterator

from ioflame.checks import Check, Verdict
from ioflame.metrics import window_metrics
from ioflame.record import ProfileFacts, RunRecord, Window

__all__ = ("run_verdicts",)

# field-tested bounds; each is printed with the value it judged
_FEW_SAMPLES = 2000
_INCOMPLETE = 0.10
_UNRESOLVED = 0.10
_LARGEST_SAMPLE = 0.05
_COVERAGE = 0.90
# Two accounts of one time differ by a sample at each edge, not by more.
_OVERFULL = 1.02
_BACKGROUND = 0.001
_FOREIGN_READS = 0.05
# Bytes a query: a twentieth of a block of 8 KiB. What a workload that answers from memory reads is less.
_FOREIGN_BYTES = 400
_DRIFT = 0.10
_STEAL_PCT = 2.0
_OBSERVER = 0.10
# CPU of an engine that stands still, by the window: being looked at costs it some.
_STILL = 0.001
_ACCOUNTING = 0.02
_TICK_NS = 10_000_000
# Of the nominal clock; boost reaches about half more.
_SLOW_CLOCK, _FAST_CLOCK = 0.8, 1.6
_DATA_TO_CACHE = 20


def run_verdicts(record: RunRecord, background_weight: int) -> Iterator[Check]:
    """All checks of a run. background_weight: that of the engine's compaction and flush threads in the profile."""
    if record.profile is not None:
        yield from _profile_checks(record.profile, background_weight)
        if record.profile.ghz is not None:
            yield _clock_check(record.profile.ghz, record.host.get("nominal_ghz", ""))
    yield from _observed_checks(record)
    yield from _workload_checks(record)
    yield from _window_checks(record)


def _observed_checks(record: RunRecord) -> Iterator[Check]:
    """What was asked for by name and did not watch fails the run; a scale's default only says so."""
    for lost in record.unobserved:
        verdict = Verdict.FAILED if lost.asked else Verdict.WARN
        yield Check(lost.kind, verdict, f"did not watch: {lost.why}", "its figures are missing", lost.mend)


def _profile_checks(profile: ProfileFacts, background_weight: int) -> Iterator[Check]:
    weight, unit = profile.weight, profile.unit
    if profile.report_weight is None:
        yield Check("folded = perf report", Verdict.FAILED, "not compared", "the total weight is not confirmed")
    elif profile.report_weight == weight:
        yield Check("folded = perf report", Verdict.OK, f"{weight:,} {unit} in both")
    else:
        yield Check(
            "folded = perf report",
            Verdict.FAILED,
            f"{weight:,} {unit} folded, {profile.report_weight:,} by perf report",
            "weight was lost or counted twice: do not use this profile",
        )
    if not weight:
        yield Check("samples", Verdict.FAILED, "none", "the process was not sampled in the perf window")
        return
    if profile.mode != "all":
        yield Check(
            "mode",
            Verdict.WARN,
            f"{profile.event} counts {profile.mode} mode only",
            f"shares and us are of {profile.mode} CPU alone",
            "sudo sysctl kernel.perf_event_paranoid=1   (or run as root)" if profile.mode == "user" else "",
        )
    few = profile.samples < _FEW_SAMPLES
    yield Check(
        "samples",
        Verdict.WARN if few else Verdict.OK,
        f"{profile.samples:,}",
        f"below {_FEW_SAMPLES:,} a share of 5 % is uncertain by more than 1 point" if few else "",
        "a larger DURATION or FREQ" if few else "",
    )
    yield _bounded("lost samples", profile.lost_samples / (profile.samples + profile.lost_samples), 0.0,
                   f"{profile.lost_samples:,}", "the shares miss what was lost", "a smaller FREQ")  # fmt: skip
    yield _incomplete_check(profile)
    yield _bounded("unresolved leaves", profile.unresolved_weight / weight, _UNRESOLVED, None,
                   "their frames have no function name", "a build with symbols")  # fmt: skip
    yield _bounded("largest sample", profile.largest_sample_weight / weight, _LARGEST_SAMPLE, None,
                   "one sample decides the picture", "a fixed period instead of a frequency")  # fmt: skip
    yield _bounded("background threads", background_weight / weight, _BACKGROUND, None,
                   "compaction or flush ran while reads were measured")  # fmt: skip
    if profile.coverage is not None:
        yield _coverage_check(profile.coverage)


def _coverage_check(coverage: float) -> Check:
    value = f"{coverage:.0%} of the scheduler's CPU time was sampled"
    if coverage > _OVERFULL:
        return Check(
            "coverage",
            Verdict.WARN,
            value,
            "samples hold time in which nothing ran: steal; a timer event counts on while the hypervisor has the CPU",
            "run it again on a quieter host, or one with a cycles counter (EVENT=cycles)",
        )
    if coverage >= _COVERAGE:
        return Check("coverage", Verdict.OK, value)
    means = "a timer event cannot fire with interrupts off; kernel parts are under-counted"
    return Check("coverage", Verdict.NOTE, value, means)


def _incomplete_check(profile: ProfileFacts) -> Check:
    means, mend = "their weight may fall into the wrong category", "CALLGRAPH=dwarf"
    if profile.callgraph == "dwarf":
        size, page = (cut / profile.weight for cut in (profile.cut_by_size_weight, profile.cut_by_page_weight))
        means += f"; {size:.1%} are longer than their copy, {page:.1%} were copied up to a page not in memory"
        mend = "CALLGRAPH=fp and a build with -fno-omit-frame-pointer"
    share = profile.incomplete_weight / profile.weight
    return _bounded("incomplete stacks", share, _INCOMPLETE, None, means, mend)


def _clock_check(ghz: float, nominal: str) -> Check:
    """Cycles by CPU time, against what the CPU is sold as: far below it is power saving, a hypervisor or heat."""
    value = f"{ghz:.2f} GHz of {nominal} nominal" if nominal else f"{ghz:.2f} GHz; nominal not stated"
    if not nominal or _SLOW_CLOCK <= ghz / float(nominal) <= _FAST_CLOCK:
        return Check("effective clock", Verdict.OK, value)
    return Check(
        "effective clock",
        Verdict.WARN,
        value,
        "CPU per query depends on the clock: another run may have another one",
        "sudo cpupower frequency-set -g performance",
    )


def _bounded(name: str, share: float, bound: float, value: str | None, means: str, mend: str = "") -> Check:
    shown = value or f"{share:.2%} of weight"
    return Check(name, Verdict.OK, shown) if share <= bound else Check(name, Verdict.WARN, shown, means, mend)


def _workload_checks(record: RunRecord) -> Iterator[Check]:
    result = record.engine_result
    if "found" in result:
        found, reads = int(result["found"]), int(result["reads"])
        if found == reads:
            yield Check("keys found", Verdict.OK, f"{found:,} of {reads:,}")
        else:
            yield Check(
                "keys found",
                Verdict.FAILED,
                f"{found:,} of {reads:,}",
                "queries for keys that are not there end at the bloom filter: another workload",
            )
    else:
        yield Check("keys found", Verdict.WARN, "unknown", "the engine's closing line is missing from its log")
    if record.database.get("direct") == "false":
        yield Check(
            "page cache",
            Verdict.NOTE,
            f"buffered reads; it was {record.database.get('page_cache', 'not dropped, and may be warm')}",
            "reads that it answers never reach the device: readsPerQuery says how many did",
            "CONFIG=iodir, or --allow-host-changes to drop it first",
        )
    data, cache = int(record.database.get("data_bytes", 0)), int(record.database.get("cache_size", 0))
    if data and cache:
        ratio = data / cache
        cached = record.database.get("cached") == "true"
        io_bound = ratio >= _DATA_TO_CACHE or cached
        yield Check(
            "IO-bound" if not cached else "cached",
            Verdict.OK if io_bound else Verdict.WARN,
            f"data are {ratio:.1f} x the block cache",
            "" if io_bound else "many queries are answered from memory",
            "" if io_bound else "a smaller CACHE_SIZE or more NUM_KEYS",
        )


def _window_checks(record: RunRecord) -> Iterator[Check]:
    for window in record.windows:
        if window.kind == "warm-up":
            reached = "bound" in window.note
            yield Check("warm-up", Verdict.NOTE if reached else Verdict.OK, f"{window.seconds:.1f} s: {window.note}")
    yield from _query_check([w for w in record.windows if w.kind != "warm-up"])
    plain = [w for w in record.windows if w.kind == "plain"]
    if not plain:
        return
    yield _foreign_check(plain)
    rates = [rate for rate in (_qps(w, record.threads) for w in plain) if rate]
    if len(rates) > 1:
        drift = max(rates) / min(rates) - 1
        yield Check(
            "drift",
            Verdict.OK if drift <= _DRIFT else Verdict.WARN,
            f"QPS of the plain windows differ by {drift:.1%}",
            "" if drift <= _DRIFT else "the device or the host changed under the run",
            "" if drift <= _DRIFT else "run it again on a quieter machine",
        )
    yield from _accounting_check(plain)
    yield from _observer_check(record, plain)
    steal = window_metrics(plain, record.threads).get("stealPct", 0.0)
    if steal > _STEAL_PCT:
        yield Check("steal", Verdict.WARN, f"{steal:.1f}% of a CPU", "other machines on this host took CPU time")


def _foreign_check(plain: list[Window]) -> Check:
    """Reads of others, as a share and by query: where the workload reads next to nothing, any others are most of it."""
    own = sum(w.counters.process_read_bytes for w in plain)
    every = sum(w.counters.storage_read_bytes for w in plain)
    queries = sum(w.counters.queries or 0 for w in plain)
    foreign = max(every - own, 0)
    few = foreign <= _FOREIGN_READS * every or (queries > 0 and foreign / queries <= _FOREIGN_BYTES)
    return Check(
        "others' reads",
        Verdict.OK if few else Verdict.WARN,
        f"{foreign / every if every else 0:.1%} of the bytes read from the device"
        + (f", {foreign / queries:,.0f} bytes a query" if queries else ""),
        "" if few else "IOPS and reqsz count them too",
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
        f"none that is known of in {len(empty)} of {len(windows)} windows: {', '.join(w.kind for w in empty)}",
        "they have no figures: "
        + ("the engine used next to no CPU, so it stood still" if len(still) == len(empty)
           else "the engine's report of finished queries does not cover them"),
    )  # fmt: skip


def _accounting_check(plain: list[Window]) -> Iterator[Check]:
    """The scheduler's CPU time against the process's own account: two counters that must tell the same."""
    cpu = sum(w.counters.cpu_ns for w in plain)
    accounted = sum(w.counters.accounted_ns for w in plain)
    if not cpu or not accounted:
        return
    difference = accounted / cpu - 1
    # The account has ticks of 10 ms, one at each edge of a window.
    closes = abs(accounted - cpu) <= max(_ACCOUNTING * cpu, 2 * _TICK_NS * len(plain))
    yield Check(
        "CPU accounting",
        Verdict.OK if closes else Verdict.WARN,
        f"schedstat and getrusage differ by {difference:+.1%} in the plain windows",
        "" if closes else "CPU per query is uncertain by as much",
    )


def _observer_check(record: RunRecord, plain: list[Window]) -> Iterator[Check]:
    """How far the window that gave the shares was from those that gave the CPU per query."""
    beside = window_metrics(plain, record.threads)
    within = window_metrics([w for w in record.windows if w.kind == "perf"], record.threads)
    if not beside or not within:
        return
    rate = within["qps"] / beside["qps"] - 1
    cpu = within["cpuPer"] / beside["cpuPer"] - 1 if beside["cpuPer"] else 0.0
    far = abs(rate) > _OBSERVER or abs(cpu) > _OBSERVER
    means = "" if not far else "the shares are of the perf window, which was not quite the plain windows' workload"
    if rate > _OBSERVER:
        means += "; faster under a sampling timer is real on an idle VM: it keeps the CPU from halting"
    yield Check(
        "observer",
        Verdict.WARN if far else Verdict.OK,
        f"with perf attached QPS {rate:+.1%}, CPU per query {within['cpuPer']:.2f} against {beside['cpuPer']:.2f} us",
        means,
    )


def _qps(window: Window, threads: int) -> float | None:
    return window_metrics([window], threads).get("qps")
