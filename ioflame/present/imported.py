"""The page of versions from what benchmark.sh left on any host: relative QPS, its chart, every figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from ground.errors import UsageError
from ground.results.benchmark_report import ReportRow, read_benchmark_reports
from ground.results.cells import Heading, Value
from ground.results.differences import Decision, RelativeTable
from ioflame.analysis.compare.relative import relative_table
from ioflame.analysis.compare.verdict import Costs, VerdictRule, decide, unpaired
from viz.experiment_view import ExperimentView

# Single runs, or a few of each: looked at once.
_RULE = VerdictRule(looks=(2,))


def imported_view(paths: Sequence[Path]) -> ExperimentView:
    """What the page shows of these files. UsageError where one of them is none, or there is nothing to compare."""
    rows, left_out = read_benchmark_reports(paths)
    tables = relative_qps(rows)
    if not tables:
        versions = ", ".join(dict.fromkeys(row.version for row in rows))
        raise UsageError(
            f"{', '.join(map(str, paths))}: one version alone, {versions}",
            means="a ratio needs two; nothing was written",
            mend="give the report.tsv of another version as well",
        )
    tests = list(dict.fromkeys(row.test for row in rows))
    values: dict[str, dict[str, Value | None]] = {}
    for (group, version), runs in _by_version(rows).items():
        name = f"{group}: {version}" if group else version
        values[name] = {test: _value(runs.get(test, [])) for test in tests}
    names = [f"{path.parent.name}/{path.name}" for path in paths]
    return ExperimentView(
        title="versions",
        about=f"relative QPS, from what benchmark.sh left: {', '.join(names)}",
        facts=f"{len(rows)} rows. Single runs have no interval, and a difference between them may be the host's",
        headings=[Heading(test, "operations a second", 0) for test in tests],
        values=values,
        judged=[],
        relative=tables,
        notes=left_out,
    )


def relative_qps(rows: Sequence[ReportRow]) -> list[tuple[str, RelativeTable]]:
    """By workload: every test by every version, against the first version of the rows; none where there is no other.

    Builds that have several versions each (by one compiler) have a table of their own, against the same base.
    """
    tables = []
    for group in dict.fromkeys(row.group for row in rows):
        own = [row for row in rows if row.group == group]
        versions = {origin: {row.version for row in own if row.origin == origin} for origin in _origins(own)}
        if len(versions) > 1 and all(len(found) > 1 for found in versions.values()):
            for origin in versions:
                some = [row for row in own if row.origin == origin or row.version == own[0].version]
                tables += _table(", ".join(filter(None, (group, origin))), some)
        else:
            tables += _table(group or "QPS", own)
    return tables


def _origins(rows: Sequence[ReportRow]) -> list[str]:
    return list(dict.fromkeys(row.origin for row in rows))


def _table(name: str, rows: Sequence[ReportRow]) -> list[tuple[str, RelativeTable]]:
    """The table of these rows under that name, if there is a version to compare with the first."""
    runs = {version: found for (_, version), found in _by_version(rows).items()}
    base, *others = runs
    decisions: dict[tuple[str, str], Decision | tuple[float, float]] = {}
    for test in dict.fromkeys(row.test for row in rows):
        for version in others:
            sides = runs[base].get(test, []), runs[version].get(test, [])
            if all(sides):
                decisions[test, version] = _decision(base, version, *sides)
    return [(name, relative_table("qps", name, base, decisions))] if decisions else []


def _decision(
    base: str, version: str, ours: Sequence[float], theirs: Sequence[float]
) -> Decision | tuple[float, float]:
    found = unpaired(ours, theirs, _RULE.confidence)
    if found is None:
        return fmean(theirs), fmean(ours)
    return decide("qps", found, _RULE, Costs(0.0, 0.0), base=base, arm=version)


def _by_version(rows: Sequence[ReportRow]) -> Mapping[tuple[str, str], dict[str, list[float]]]:
    """By workload and version: the runs of each test, in the order of the rows."""
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row in rows:
        found.setdefault((row.group, row.version), {}).setdefault(row.test, []).append(row.ops_per_second)
    return found


def _value(runs: Sequence[float]) -> Value | None:
    return Value(fmean(runs), None, None, len(runs)) if runs else None
