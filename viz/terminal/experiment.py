"""The tables of the IO-efficiency experiment: fio, the database, what it costs more, the models, the categories."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ground.results.checks import Verdict
from ground.results.experiment import Baseline, ExperimentRecord
from ground.results.interval import Interval
from ground.results.metrics import LEGEND
from ground.system.host import describe_host
from ioflame.analysis.bootstrap import Draws
from ioflame.analysis.io_efficiency import FIO, MeasuredStep, Row, baselines, fio_figures, rows
from viz.terminal.columns import aligned, folded
from viz.terminal.experiment_categories import render_categories, render_orders
from viz.terminal.writes import render_writes

__all__ = ("render_efficiency",)

_PROOFS = (
    "LSM tree", "memtable and L0", "levels after", "compaction in the log", "writes while reading",
    "background threads", "keys found", "folded = perf report", "CPU accounting", "filters unused",
)  # fmt: skip
# Figures by column, with the digits of the source document.
_COLUMNS = {
    "qps": 0, "iops": 0, "reqsz": 1, "usPer": 3, "syPer": 3, "cpuPer": 3, "rx.lat": 2, "io.lat": 2,
    "io.eff": 3, "us.inc": 3, "cpu.inc": 3,
}  # fmt: skip
_COMPARED = ("qps", "iops", "usPer", "syPer", "cpuPer", "rx.lat", "io.lat", "io.eff", "cpu.inc")
NO_DIFFERENCE = "none seen"
# Of the bytes read from the device; more is said beside the figure.
_FOREIGN = 0.05
# What a row's figures suffer from although its proofs hold, by the check that warns of it.
_REMARKS = {"others' reads": "others", "drift": "drift"}


def render_efficiency(experiment: ExperimentRecord, measured: Sequence[MeasuredStep], width: int | None = None) -> str:
    """All tables as text, no line wider than `width`. Figures of several repeats are medians."""
    found = list(rows(experiment, measured))
    parts = [_head(experiment, measured), render_writes(experiment, width), _fio_table(experiment, width)]
    parts += [_database_table(found, width), _difference_table(experiment, found, width)]
    parts.append(_model_table(found, width))
    for users in dict.fromkeys(row.users for row in found):
        of_users = [row for row in found if row.users == users]
        parts += [render_categories(of_users, view, width) for view in ("owner", "leaf")]
    parts += [render_orders(found, experiment.orders), _proof_table(measured, width)]
    return folded("\n\n".join(part for part in parts if part), width) + "\n"


def _head(experiment: ExperimentRecord, measured: Sequence[MeasuredStep]) -> str:
    database = measured[0].record.database.get("description", "") if measured else ""
    assertions = experiment.tools.get("engine_assertions") == "yes"
    lines = [
        f"{experiment.name}: {experiment.about}",
        f"{experiment.created}; {describe_host(experiment.host)}; RocksDB {experiment.tools.get('engine', '?')}"
        f"{', assertions on: slower than a release build' * assertions}",
        # The tree differs from step to step: the proofs have it.
        database.partition(";")[0],
        *_profile_lines(measured),
    ]
    return "\n".join(lines)


def _profile_lines(measured: Sequence[MeasuredStep]) -> list[str]:
    """How the shares were taken, and how much of the CPU time they saw."""
    profiles = [m.record.profile for m in measured if m.record.profile is not None]
    if not profiles:
        return []
    first = profiles[0]
    line = f"profiles: {first.event} (weights in {first.unit}), {first.frequency} Hz, {first.callgraph} call graphs"
    seen = [profile.coverage for profile in profiles if profile.coverage is not None]
    if seen:
        line += f"; {min(seen):.0%} to {max(seen):.0%} of the scheduler's CPU time was sampled"
    lines = [line]
    if first.unit == "ns":
        lines.append(
            "a timer cannot fire with interrupts off: kernel leaves show where they come back on, not where time goes"
        )
    return lines


def _fio_table(experiment: ExperimentRecord, width: int | None) -> str:
    counts = sorted({s.users for s in experiment.steps if s.baseline})
    if not counts:
        return ""
    digits = {"iops": 0, "reqsz": 1, "us_per": 3, "sy_per": 3, "cpu_per": 3, "lat": 2, "io_lat": 2}
    heads = ["users", "", "iops", "reqsz", "usPer", "syPer", "cpuPer", "lat", "io.lat", "runs"]
    table = [heads]
    for users in counts:
        runs = baselines(experiment, users)
        fio = fio_figures(runs, users)
        table.append([str(users), "median", *(f"{fio[n].estimate:.{digits[n]}f}" for n in FIO), str(len(runs))])
        for what, choose in (("least", min), ("most", max)):
            table.append(["", what, *(f"{choose(getattr(run, n) for run in runs):.{digits[n]}f}" for n in FIO), ""])
    orders = [
        f"\n  {users} user{'s' * (users != 1)}: iops of the runs in order: "
        + ", ".join(f"{run.iops:.0f}{_of_others(run)}" for run in baselines(experiment, users))
        for users in counts
    ]
    return (
        "fio, random reads of the database's own files (sync, O_DIRECT, one read in flight per user)\n"
        + aligned(table, width)
        + "\n  usPer, syPer, cpuPer: CPU us per read; lat: us per read by fio; io.lat: by the device's counter, us;"
        + "\n  runs stand before and after each step of the database, so a device that drifts shows:"
        + "".join(orders)
    )  # fmt: skip


def _of_others(run: Baseline) -> str:
    return f" ({100 * run.others:.0f} % of the bytes were read by others)" if run.others > _FOREIGN else ""


def _database_table(found: Sequence[Row], width: int | None) -> str:
    table = [["test", "users", "", *_COLUMNS, "runs", "proofs"]]
    for row in found:
        cells = [_digits(row.figures.get(name), digits) for name, digits in _COLUMNS.items()]
        table.append([row.step, str(row.users), "", *cells, str(len(row.repeats)), _verdict_of(row)])
        intervals = {name: row.figures[name].interval() for name in _COLUMNS if name in row.figures}
        for what, end in (("from", "low"), ("to", "high")):
            ends = [_end(intervals.get(name), end, digits) for name, digits in _COLUMNS.items()]
            if any(ends):
                table.append(["", "", what, *ends, "", ""])
    alone = all(len(row.repeats) == 1 for row in found)
    return "\n".join([
        "RocksDB (plain windows; usPer, syPer and cpuPer per storage read, as in the source document)",
        aligned(table, width),
        "  from, to: 95 % interval, by bootstrap over the repeats and the seconds of their plain windows;",
        *(["  one run tells nothing of what differs from run to run (REPEATS=3 does)"] if alone else []),
        *(f"  {name}: {LEGEND[name]}" for name in ("qps", "iops", "reqsz", "rx.lat", "io.lat")),
        "  io.eff: iops / fio's iops with as many users; us.inc, cpu.inc: CPU us per read beyond fio's;",
        "  fio's: the runs that stand before and after the step, which had the device as the step had it",
        "  proofs: FAILED: not the workload it is to be; others: somebody else read this device too, so iops, reqsz",
        "  and what is per read or against fio are off; drift: the plain windows of one run differ by more than 10 %",
    ])  # fmt: skip


def _digits(draws: Draws | None, digits: int) -> str:
    return "-" if draws is None else f"{draws.estimate:.{digits}f}"


def _end(interval: Interval | None, end: str, digits: int) -> str:
    return "" if interval is None else f"{getattr(interval, end):.{digits}f}"


def _verdict_of(row: Row) -> str:
    checks = [check for m in row.repeats for check in m.record.checks]
    if any(check.verdict is Verdict.FAILED for check in checks):
        return "FAILED"
    warned = {check.name for check in checks if check.verdict is Verdict.WARN}
    return ", ".join(["hold", *(remark for name, remark in _REMARKS.items() if name in warned)])


# What of fio drifts when a figure of the database does for the same reason.
_DRIFTS = {
    "qps": "iops", "iops": "iops", "rx.lat": "iops", "io.lat": "io_lat", "usPer": "us_per", "syPer": "sy_per",
    "cpuPer": "cpu_per",
}  # fmt: skip


def _difference_table(experiment: ExperimentRecord, found: Sequence[Row], width: int | None) -> str:
    table = [["from", "to", "users", *_COMPARED]]
    for _, group in itertools.groupby(found, lambda row: row.users):
        of_users = list(group)
        pairs = list(itertools.pairwise(of_users))
        if len(of_users) > 2:
            pairs.append((of_users[0], of_users[-1]))
        for a, b in pairs:
            runs = baselines(experiment, a.users)
            cells = [_difference(n, a.figures.get(n), b.figures.get(n), runs) for n in _COMPARED]
            table.append([a.step, b.step, str(a.users), *cells])
    if len(table) == 1:
        return ""
    return (
        "Differences between steps, % of the first\n" + aligned(table, width)
        + f"\n  {NO_DIFFERENCE}: the 95 % interval of the difference holds zero; -: too few seconds for an interval;"
        + "\n  ?: fio's own runs differ by as much, so it may be the device or the host and not the step"
    )  # fmt: skip


def _difference(name: str, a: Draws | None, b: Draws | None, runs: Sequence[Baseline]) -> str:
    if a is None or b is None or not a.estimate:
        return "-"
    difference = a.change_to(b)
    if difference is None:
        return "-"
    if not difference.leaves_zero:
        return NO_DIFFERENCE
    change = difference.estimate / a.estimate
    of_fio = [getattr(run, _DRIFTS[name]) for run in runs] if name in _DRIFTS else []
    drifts = bool(of_fio) and min(of_fio) > 0 and abs(change) <= max(of_fio) / min(of_fio) - 1
    return f"{100 * change:+.1f}{' ?' * drifts}"


def _model_table(found: Sequence[Row], width: int | None) -> str:
    table = [["test", "users", "actual iops", "fio.lat + cpu.inc", "off %", "95 %", "io.lat + cpuPer", "off %", "95 %"]]
    for row in found:
        cells = []
        for name in ("model.post", "model.own"):
            off, actual = row.figures.get(name), row.figures.get("iops")
            if off is None or actual is None:
                cells += ["-", "-", "-"]
                continue
            interval = off.interval()
            cells += [f"{actual.estimate * (1 + off.estimate / 100):.0f}", f"{off.estimate:+.1f}"]
            cells.append("-" if interval is None else f"{interval.low:+.1f}..{interval.high:+.1f}")
        table.append([row.step, str(row.users), _digits(row.figures.get("iops"), 0), *cells])
    return (
        "Models: IOPS of users that wait for one read after the other, from the parts of one read\n"
        + aligned(table, width)
        + "\n  the first is the source document's; what either is off by is time that is neither CPU nor device:"
        + "\n  the wake-up, the run queue, and queries that read nothing or more than once"
    )  # fmt: skip


def _proof_table(measured: Sequence[MeasuredStep], width: int | None) -> str:
    """Every check of every run, a column a step; then what is not ok, with its value."""
    checks = [{check.name: check for check in m.record.checks} for m in measured]
    others = dict.fromkeys(name for of_step in checks for name in of_step if name not in _PROOFS)
    numbers = [m.step.id.partition("-")[0] for m in measured]
    table = [["proof", *numbers]]
    for name in _PROOFS:
        table.append([name, *(of_step[name].verdict.value if name in of_step else "-" for of_step in checks)])
    further = [["check", *numbers]]
    for name in others:
        further.append([name, *(of_step[name].verdict.value if name in of_step else "-" for of_step in checks)])
    steps = [f"  {m.step.id}: {m.record.database.get('levels') or 'unknown tree'}" for m in measured]
    remarks = [
        f"  {number} {check.verdict.value}: {check.name}: {check.value}{f'; {check.means}' if check.means else ''}"
        for number, of_step in zip(numbers, checks, strict=True)
        for check in of_step.values()
        if check.verdict is not Verdict.OK
    ]
    return "\n".join([
        "Steps measured, and the LSM tree each one read", *steps, "", "Proofs", aligned(table, width), "",
        "Further checks", aligned(further, width), *(["", "What is not ok", *remarks] if remarks else []),
    ])  # fmt: skip
