"""Finished comparisons beside each other: tests by versions, a table a figure and host; what several hosts say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ground.errors import UsageError
from ground.results.comparison import Comparison
from ground.results.differences import Agreement, Cell, Decision, RelativeTable
from ground.results.metrics import DECIDING
from ground.results.verdicts import Verdicts
from ioflame.analysis.compare.relative import agreement, relative_table


@dataclass(frozen=True)
class Beside:
    """tables: of each deciding figure on each host; agreements: of each test and arm that several hosts measured"""

    tables: list[RelativeTable]
    agreements: dict[str, Agreement]


def tables_of(compared: Sequence[tuple[Comparison, Verdicts]]) -> Beside:
    """UsageError where their bases are of different names, so that no column can be of one thing."""
    bases = list(dict.fromkeys(record.base.name for record, _ in compared))
    if len(bases) > 1:
        raise UsageError(
            f"the comparisons have different bases: {', '.join(bases)}",
            means="their columns are ratios to different things",
            mend="ioflame compare DIR... of comparisons with one base",
        )
    hosts = list(dict.fromkeys(_host(record) for record, _ in compared))
    tables = []
    of_hosts: dict[tuple[str, str, str], dict[str, Cell]] = {}
    for metric in DECIDING:
        for host in hosts:
            decisions: dict[tuple[str, str], Decision | tuple[float, float]] = {
                (_test(record), arm.arm): arm.decisions[metric]
                for record, found in compared
                for arm in found.arms
                if _host(record) == host and metric in arm.decisions
            }
            measured = {place: one for place, one in decisions.items() if isinstance(one, Decision) and one.difference}
            if measured:
                table = relative_table(metric, host, bases[0], measured)
                tables.append(table)
                for row, cells in table.cells.items():
                    for column, cell in cells.items():
                        if column != bases[0]:
                            of_hosts.setdefault((metric, row, column), {})[host] = cell
    agreements = {
        f"{metric}, {row}, {column} against {bases[0]}": agreement(cells, metric, compared[0][0].plan.delta)
        for (metric, row, column), cells in of_hosts.items()
        if len(cells) > 1
    }
    return Beside(tables, agreements)


def _host(record: Comparison) -> str:
    return f"host {record.host.get('host_id', 'unknown')[:8]}"


def _test(record: Comparison) -> str:
    names = [record.workload, record.options.get("configuration", "")]
    threads = {arm.threads for arm in record.arms}
    return " ".join(filter(None, [*names, f"t{threads.pop()}" if len(threads) == 1 else ""]))
