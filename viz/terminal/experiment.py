"""The tables of the IO-efficiency experiment: fio, the database, what it costs more, the models, the categories."""

from __future__ import annotations

from collections.abc import Sequence

from ground.results.cells import Baseline, Value
from ground.results.checks import Verdict
from ground.results.efficiency import Change, Efficiency, EfficiencyRow, FioRuns, MeasuredStep
from ground.results.experiment import ExperimentRecord
from ground.results.metrics import LEGEND
from ground.system.host import describe_host
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


def render_efficiency(experiment: ExperimentRecord, found: Efficiency, width: int | None = None) -> str:
    """All tables as text, no line wider than `width`. Figures of several repeats are medians."""
    parts = [_head(experiment, found.measured), render_writes(experiment, width), _fio_table(found.fio, width)]
    parts += [_database_table(found.rows, width), _difference_table(found, width), _model_table(found.rows, width)]
    parts += [render_categories(table, width) for table in found.categories]
    parts += [render_orders(found.orders), _proof_table(found.measured, width)]
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


def _fio_table(fio: Sequence[FioRuns], width: int | None) -> str:
    if not fio:
        return ""
    digits = {"iops": 0, "reqsz": 1, "us_per": 3, "sy_per": 3, "cpu_per": 3, "lat": 2, "io_lat": 2}
    heads = ["users", "", "iops", "reqsz", "usPer", "syPer", "cpuPer", "lat", "io.lat", "runs"]
    table = [heads]
    for one in fio:
        medians = [f"{one.medians[name]:.{places}f}" for name, places in digits.items()]
        table.append([str(one.users), "median", *medians, str(len(one.runs))])
        for what, choose in (("least", min), ("most", max)):
            ends = [f"{choose(getattr(run, name) for run in one.runs):.{places}f}" for name, places in digits.items()]
            table.append(["", what, *ends, ""])
    orders = [
        f"\n  {one.users} user{'s' * (one.users != 1)}: iops of the runs in order: "
        + ", ".join(f"{run.iops:.0f}{_of_others(run)}" for run in one.runs)
        for one in fio
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


def _database_table(found: Sequence[EfficiencyRow], width: int | None) -> str:
    table = [["test", "users", "", *_COLUMNS, "runs", "proofs"]]
    for row in found:
        cells = [_digits(row.figures.get(name), digits) for name, digits in _COLUMNS.items()]
        table.append([row.step, str(row.users), "", *cells, str(len(row.repeats)), _verdict_of(row)])
        for what, end in (("from", "low"), ("to", "high")):
            ends = [_end(row.figures.get(name), end, digits) for name, digits in _COLUMNS.items()]
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


def _digits(value: Value | None, digits: int) -> str:
    return "-" if value is None else f"{value.median:.{digits}f}"


def _end(value: Value | None, end: str, digits: int) -> str:
    found = None if value is None else getattr(value, end)
    return "" if found is None else f"{found:.{digits}f}"


def _verdict_of(row: EfficiencyRow) -> str:
    checks = [check for m in row.repeats for check in m.record.checks]
    if any(check.verdict is Verdict.FAILED for check in checks):
        return "FAILED"
    warned = {check.name for check in checks if check.verdict is Verdict.WARN}
    return ", ".join(["hold", *(remark for name, remark in _REMARKS.items() if name in warned)])


def _difference_table(found: Efficiency, width: int | None) -> str:
    if not found.differences:
        return ""
    table = [["from", "to", "users", *_COMPARED]]
    for one in found.differences:
        cells = [_difference(one.changes.get(name)) for name in _COMPARED]
        table.append([one.first, one.last, str(one.users), *cells])
    return (
        "Differences between steps, % of the first\n" + aligned(table, width)
        + f"\n  {NO_DIFFERENCE}: the 95 % interval of the difference holds zero; -: too few seconds for an interval;"
        + "\n  ?: fio's own runs differ by as much, so it may be the device or the host and not the step"
    )  # fmt: skip


def _difference(change: Change | None) -> str:
    if change is None:
        return "-"
    return NO_DIFFERENCE if change.percent is None else f"{change.percent:+.1f}{' ?' * change.of_fio}"


def _model_table(found: Sequence[EfficiencyRow], width: int | None) -> str:
    table = [["test", "users", "actual iops", "fio.lat + cpu.inc", "off %", "95 %", "io.lat + cpuPer", "off %", "95 %"]]
    for row in found:
        cells = []
        for name in ("model.post", "model.own"):
            off, actual = row.figures.get(name), row.figures.get("iops")
            if off is None or actual is None:
                cells += ["-", "-", "-"]
                continue
            cells += [f"{actual.median * (1 + off.median / 100):.0f}", f"{off.median:+.1f}"]
            cells.append("-" if off.low is None or off.high is None else f"{off.low:+.1f}..{off.high:+.1f}")
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
