"""Tables of an experiment's cells: the figures of each; writes, fio, differences, categories, checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from ground.results.categories import Category
from ground.results.cells import Baseline, Change, Value
from ground.results.checks import Verdict
from ground.results.record import RunRecord
from ground.results.writes import COLUMNS
from ground.text.titles import title_of
from viz.experiment_view import ExperimentView
from viz.figures import number_text
from viz.table import Table, of_cells
from viz.weights import percentages

NO_DIFFERENCE = "not significant"
# Of the bytes read from the device; more is said beside the figure.
_FOREIGN = 0.05


def cells_table(view: ExperimentView) -> Table[Sequence[str]]:
    """Every cell: the median of each column, below it where its ends are known these, and what was published."""
    told = [h.name for h in view.headings if any(h.name in figures for figures in view.published.values())]
    rows, about = [], ""
    for cell, values in view.values.items():
        runs = max((value.runs for value in values.values() if value is not None), default=0)
        published = view.published.get(cell, {})
        figures = [number_text(getattr(values[h.name], "median", None), h.digits) for h in view.headings]
        rows.append([cell, *figures, str(runs), *(number_text(published.get(name), 3) for name in told)])
        ends = [_ends(values[h.name], h.digits) for h in view.headings]
        if any(ends):
            about = view.spread.about
            rows.append([f"\u2003{view.spread.called}", *ends, "", *("" for _ in told)])
    heads = ["cell", *(h.name for h in view.headings), "runs", *(f"{name}, published" for name in told)]
    legend = "; ".join(f"{h.name}: {h.about}" for h in view.headings)
    return of_cells("Every cell", heads, rows, f"{legend}. {about}".rstrip())


def _ends(value: Value | None, digits: int) -> str:
    if value is None or value.low is None or value.high is None:
        return ""
    return f"{number_text(value.low, digits)}..{number_text(value.high, digits)}"


def writes_table(rows: Mapping[str, Mapping[str, str]]) -> Table[Sequence[str]]:
    """rows: by step, as `results.writes.columns` has them"""
    return of_cells(
        "Writes that made the tree (by the engine's own statistics)",
        ("test", *COLUMNS),
        [[step, *(row[name] for name in COLUMNS)] for step, row in rows.items()],
        "L0_GB: by flushes; Sum_GB: by flushes and compactions; W-Amp: Sum_GB / L0_GB; p50..p99.99: us; du: KiB",
    )


def baselines_table(runs: Mapping[int, Sequence[Baseline]]) -> Table[Sequence[str]]:
    """runs: of fio in the order they were made, by users"""
    digits = {"iops": 0, "reqsz": 1, "us_per": 3, "sy_per": 3, "cpu_per": 3, "lat": 2, "io_lat": 2}
    rows, orders = [], []
    for users, of_users in runs.items():
        called = f"{users} user{'s' * (users != 1)}"
        for what, choose in (("median", median), ("least", min), ("most", max)):
            ends = [f"{choose([getattr(run, name) for run in of_users]):.{places}f}" for name, places in digits.items()]
            rows.append([f"{called}, {what}", *ends, str(len(of_users))])
        orders.append(f"{called}: iops of the runs in order: {', '.join(map(_iops, of_users))}")
    return of_cells(
        "fio, random reads of the database's own files (sync, O_DIRECT, one read in flight per user)",
        ("", "iops", "reqsz", "usPer", "syPer", "cpuPer", "lat", "io.lat", "runs"),
        rows,
        "usPer, syPer, cpuPer: CPU us per read; lat: us per read by fio; io.lat: by the device's counter, us; "
        f"runs are before and after each workload, so a device that drifts shows. {'; '.join(orders)}",
    )


def _iops(run: Baseline) -> str:
    others = f" ({100 * run.others:.0f} % of the bytes were read by others)" if run.others > _FOREIGN else ""
    return f"{run.iops:.0f}{others}"


def changes_table(names: Sequence[str], pairs: Sequence[tuple[str, str, Mapping[str, Change]]]) -> Table[Sequence[str]]:
    """names: of columns; pairs: the first cell, the other, and what changed by column"""
    return of_cells(
        "Differences between cells, % of the first",
        ("from", "to", *names),
        [[first, last, *(_change(changes.get(name)) for name in names)] for first, last, changes in pairs],
        f"{NO_DIFFERENCE}: the 95 % interval of the difference includes zero; -: too few seconds for an interval; "
        "?: fio's own runs differ by as much, so it may be the device or the host and not the cell",
    )


def _change(change: Change | None) -> str:
    if change is None:
        return "-"
    return NO_DIFFERENCE if change.percent is None else f"{change.percent:+.1f}{' ?' * change.of_fio}"


def shares_table(
    caption: str, view: str, cells: Mapping[str, Sequence[Category]], moves: Mapping[str, str], legend: str
) -> Table[Sequence[str]]:
    """A view of several cells, all their runs together. moves: by category, from the first cell to the last"""
    columns = list(cells.values())
    shown = [percentages([category.weight for category in categories]) for categories in columns]
    rows = []
    for i, category in enumerate(columns[0]):
        if view != "owner" and not any(categories[i].weight for categories in columns):
            continue
        row = [title_of(category.name)]
        for categories, shares in zip(columns, shown, strict=True):
            interval, us = categories[i].interval, categories[i].us_per_query
            row += [shares[i], f"{interval.low:.1f}..{interval.high:.1f}" if interval else "-", _us(us)]
        rows.append([*row, moves.get(category.name, "-")])
    totals = [["100.00", "", _us(sum(c.us_per_query or 0.0 for c in categories))] for categories in columns]
    rows.append(["all", *(cell for total in totals for cell in total), ""])
    heads = ["category", *(head for cell in cells for head in (f"{cell} %", "95 %", "us/query")), "first to last"]
    words = (
        "%: of the weight of the perf windows; 95 %: over their seconds, which samples of one second share; "
        "us/query: that share of the CPU per query of the baseline windows"
    )
    return of_cells(caption, heads, rows, f"{words}. {legend}")


def _us(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def profiles_legend(records: Sequence[RunRecord]) -> str:
    """How the shares were taken, and how much of the CPU time they saw."""
    profiles = [record.profile for record in records if record.profile is not None]
    if not profiles:
        return ""
    first, samples = profiles[0], sum(profile.samples for profile in profiles)
    words = f"profiles: {samples:,} samples, {first.event} (weights in {first.unit}), {first.frequency} Hz"
    words += f", {first.callgraph} call graphs"
    seen = [profile.coverage for profile in profiles if profile.coverage is not None]
    if seen:
        words += f"; {min(seen):.0%} to {max(seen):.0%} of the scheduler's CPU time was sampled"
    if first.unit == "ns":
        words += "; a timer cannot fire with interrupts off: kernel leaves show where they come back on"
    return words


def checks_tables(runs: Mapping[str, RunRecord]) -> list[Table[Sequence[str]]]:
    """Every check of every run, a column a run; then what is not ok, with its value. runs: by what they are called"""
    checks = [{check.name: check for check in record.checks} for record in runs.values()]
    names = dict.fromkeys(name for of_run in checks for name in of_run)
    rows = [[name, *(of_run[name].verdict.value if name in of_run else "-" for of_run in checks)] for name in names]
    numbers = [str(number) for number in range(1, len(checks) + 1)]
    trees = [
        f"{number}: {called}: {record.database.levels or 'unknown tree'}"
        for number, (called, record) in zip(numbers, runs.items(), strict=True)
    ]
    remarks = [
        [f"{number} {check.verdict.value}: {check.name}: {check.value}{f'; {check.means}' if check.means else ''}"]
        for number, of_run in zip(numbers, checks, strict=True)
        for check in of_run.values()
        if check.verdict is not Verdict.OK
    ]
    found = [of_cells("Proofs and checks of every run", ("check", *numbers), rows, "; ".join(trees))]
    return [*found, *([of_cells("What is not ok", ("run, check, value",), remarks)] if remarks else [])]
