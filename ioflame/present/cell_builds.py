"""What an experiment of several builds says of them: ratios to the base, and where the CPU of a query went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from ground.results.accounts import ACCOUNTS, ALL, Account
from ground.results.categories import Categories, read_categories
from ground.results.cells import CellOutcome, CellsRecord, CellsRun, Judged
from ground.results.differences import BudgetRow, RelativeTable
from ground.results.files import Files
from ground.results.run import Run, open_run
from ioflame.analysis.builds import Round, base_agrees, moved_rows, ratios, summed_rows
from ioflame.analysis.compare.accounts import account_change
from ioflame.analysis.compare.budget import ArmSlices, latency_budget, ratio_changes
from ioflame.analysis.metric_intervals import slice_columns
from viz.breakdowns import Stacked, against_base, beside, parts_in_order
from viz.table import Table
from workloads.cells import Breakdown as Asked
from workloads.cells import Cell, Cells, Column

ROLE = "role"
# Of so many builds the comparison with the base says it all.
_PAIR = 2
# Of `artifact_facts`: what a build says of inlined functions is in its debug information.
_INLINES = ("engine_debug", "there")


@dataclass(frozen=True)
class Compared:
    """tables: by what they are of, a group of cells; agrees: whether the base agrees with itself, by group

    facts: of each build, by name; barred: what of them forbids a comparison
    """

    tables: list[tuple[str, RelativeTable]]
    agrees: list[tuple[str, Judged]]
    facts: dict[str, dict[str, str]]
    barred: list[str]


def compared_builds(cells: Cells, going: CellsRun) -> Compared:
    """Every column with a metric against the base; nothing where one build was run."""
    record = going.record
    found = Compared([], [], _facts(cells, going), [])
    if not cells.builds:
        return found
    base = cells.builds[0]
    bars = {build: _bars(cells.same, found.facts, base, build) for build in cells.builds[1:]}
    for build, why in bars.items():
        found.barred.extend(f"{build} against {base} is not comparable: {one}" for one in why)
    for group, members in _groups(cells).items():
        every: dict[str, list[Round]] = {}
        for metric in dict.fromkeys(column.metric for column in cells.columns if column.metric):
            rows = {
                f"{step}: {column.name}" if step else column.name: _rounds(record, members, column, step)
                for step in cells.rows or [""]
                for column in cells.columns
                if column.metric == metric
            }
            rows = {name: rounds for name, rounds in rows.items() if rounds}
            table = ratios(metric, group, base, rows, bars)
            if table is not None:
                found.tables.append((group, table))
            every |= rows
        found.agrees.append((f"{group}: {base}, measured first and last, agrees with itself", base_agrees(base, every)))
    return found


def _groups(cells: Cells) -> dict[str, dict[str, str]]:
    """By cell as the file has it: its builds, by the names of their cells."""
    groups: dict[str, dict[str, str]] = {}
    for cell in cells.cells:
        groups.setdefault(cell.of, {})[cell.name] = cell.build
    return groups


def _facts(cells: Cells, going: CellsRun) -> dict[str, dict[str, str]]:
    """What is known of each build; with what its first measured process had loaded, the allocator among it."""
    builds = {cell.name: cell.build for cell in cells.cells}
    facts = {name: dict(known) for name, known in going.record.builds.items()}
    for run in going.record.runs:
        known = facts.get(builds.get(run.cell, ""), {})
        measured = next(iter(run.runs.values()), None)
        if run.status == "done" and measured and known and "allocator" not in known:
            tools = open_run(going.directory / measured).record.tools
            known |= {name: v for name, v in tools.items() if name == "allocator" or name.startswith("library ")}
    return facts


def _bars(same: Sequence[str], facts: Mapping[str, Mapping[str, str]], base: str, build: str) -> list[str]:
    ours, theirs = facts[build], facts[base]
    return [
        f"{fact}: {theirs.get(fact, '-')} in {base}, {ours.get(fact, '-')} in {build}"
        for fact in same
        if ours.get(fact) != theirs.get(fact)
    ]


def _rounds(record: CellsRecord, members: Mapping[str, str], column: Column, step: str) -> list[Round]:
    """The values of a column, round by round in the order of the runs that have it. step: where it is a row"""
    found: list[Round] = []
    for runs in _by_round(record, members):
        values = [(members[run.cell], column.at(step).value(run.figures)) for run in runs]
        known = [(build, value) for build, value in values if value is not None and value > 0]
        if known:
            found.append(known)
    return found


def _by_round(record: CellsRecord, members: Mapping[str, str]) -> list[list[CellOutcome]]:
    """The runs of these cells that are done, round by round."""
    rounds: dict[int, list[CellOutcome]] = {}
    for run in record.runs:
        if run.cell in members and run.status == "done":
            rounds.setdefault(run.round, []).append(run)
    return list(rounds.values())


# ---- where the CPU went --------------------------------------------------------------------------------------------
def breakdowns_of(cells: Cells, going: CellsRun) -> list[Table[Sequence[str]]]:
    """The tables that the experiment's file asks for: cell beside cell, or each build against the base."""
    found = []
    for asked in cells.breakdowns:
        if not cells.builds:
            costs = {cell.name: _parts(going.record, cell, asked) for cell in cells.cells}
            found.append(beside(_caption(asked), costs, _unit(asked)))
            continue
        for group, members in _groups(cells).items():
            # Of engines, one may have no such account at all.
            if len(members) > _PAIR or (cells.engines and asked.by in ACCOUNTS):
                costs = _by_build(cells, going, group, asked)
                found.append(beside(f"{group}: {_caption(asked)}, of every build", costs, _unit(asked)))
            found += _against_base(f"{group}: {_caption(asked)}", cells, going, members, asked)
    return [one for one in found if one.rows]


def stacked_builds(cells: Cells, going: CellsRun) -> list[Stacked]:
    """The same tables to be drawn: of every group of cells the builds that have it, in their order."""
    costs = {
        (group, asked.step, asked.by): _by_build(cells, going, group, asked)
        for asked in cells.breakdowns
        if asked.by not in ACCOUNTS
        for group in (list(_groups(cells)) if cells.builds else [])
    }
    orders = {
        by: parts_in_order(parts for (_, _, of), builds in costs.items() if of == by for parts in builds.values())
        for _, _, by in costs
    }
    return [
        Stacked(f"{group}: {_caption(Asked(step=step, by=by))}", orders[by], builds)
        for (group, step, by), builds in costs.items()
        if builds
    ]


def _caption(asked: Asked) -> str:
    if asked.by in ACCOUNTS:
        return f"{asked.step}: {ACCOUNTS[asked.by].title}"
    return f"CPU us per query of {asked.step}, by {asked.by if asked.by == ROLE else f'category ({asked.by})'}"


def _unit(asked: Asked) -> str:
    return ACCOUNTS[asked.by].unit if asked.by in ACCOUNTS else "us/query"


def _by_build(cells: Cells, going: CellsRun, group: str, asked: Asked) -> dict[str, dict[str, float]]:
    """The parts of each build of a group that has the step."""
    parts = {cell.build: _parts(going.record, cell, asked) for cell in cells.cells if cell.of == group}
    return {build: of for build, of in parts.items() if any(of.values())}


def _parts(record: CellsRecord, cell: Cell, asked: Asked) -> dict[str, float]:
    """The mean of each part over the cell's runs that have the step."""
    found: dict[str, list[float]] = {}
    for run in record.figures(cell.name):
        for name, value in _parts_in(run, asked).items():
            found.setdefault(name, []).append(value)
    return {name: fmean(values) for name, values in found.items()}


def _parts_in(figures: Mapping[str, float], asked: Asked) -> dict[str, float]:
    prefix = f"{asked.step}.{asked.by}."
    return {name.removeprefix(prefix): value for name, value in figures.items() if name.startswith(prefix)}


def _against_base(
    caption: str, cells: Cells, going: CellsRun, members: Mapping[str, str], asked: Asked
) -> list[Table[Sequence[str]]]:
    base, *others = cells.builds
    if asked.by in ACCOUNTS:
        return _accounts_against_base(caption, cells, going.record, members, asked)
    rounds = [_runs_by_build(going.directory, runs, members, asked) for runs in _by_round(going.record, members)]
    found = []
    for build in others:
        pairs = [(one[base], one[build]) for one in rounds if {base, build} <= one.keys()]
        if not pairs:
            continue
        runs = [[run for pair in pairs for run in pair[side]] for side in (0, 1)]
        tables = {} if asked.by == ROLE else {
            run.directory: read_categories(run.directory, asked.by) for side in runs for run in side
        }  # fmt: skip
        has = [{row.name for run in side if tables for row in tables[run.directory].rows} for side in runs]
        sums = {part: name for one, other in (has, has[::-1]) for part, name in summed_rows(one, other).items()}
        rows = _by_category(pairs, tables, sums) if tables else _by_role(pairs)
        inlines = {name: going.record.builds[name].get(_INLINES[0]) == _INLINES[1] for name in (base, build)}
        # Engines have other functions: what one of them lacks is not inlined.
        moved = {} if asked.by == ROLE or cells.engines else moved_rows(
            rows, base_inlines=inlines[base], arm_inlines=inlines[build]
        )  # fmt: skip
        has = [{sums.get(name, name) for name in side} for side in has]
        lacks = {base: has[1] - has[0], build: has[0] - has[1]}
        found.append(against_base(f"{caption}: {build} - {base}", base, build, rows, len(pairs), moved, lacks))
    return found


def _accounts_against_base(
    caption: str, cells: Cells, record: CellsRecord, members: Mapping[str, str], asked: Asked
) -> list[Table[Sequence[str]]]:
    base, *others = cells.builds
    unit = ACCOUNTS[asked.by].unit
    rounds = [
        {members[run.cell]: parts for run in runs if (parts := _parts_in(run.figures, asked))}
        for runs in _by_round(record, members)
    ]
    found = []
    for build in others:
        pairs = [
            (_by_one(asked, one[base]), _by_one(asked, one[build])) for one in rounds if {base, build} <= one.keys()
        ]
        if pairs:
            rows = account_change(pairs).rows
            found.append(against_base(f"{caption}: {build} - {base}", base, build, rows, len(pairs), {}, {}, unit))
    return found


def _by_one(asked: Asked, parts: Mapping[str, float]) -> Account:
    """Of a round, which is one measurement: the cost of each part for a unit of work."""
    return Account(asked.by, 1.0, {name: value for name, value in parts.items() if name != ALL})


def _runs_by_build(
    directory: Path, runs: Sequence[CellOutcome], members: Mapping[str, str], asked: Asked
) -> dict[str, list[Run]]:
    """The runs of a step by build; of those that have the view that is asked for."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        place = directory / run.runs.get(asked.step, "")
        if asked.step in run.runs and (asked.by == ROLE or (place / Files.of_view(asked.by)).exists()):
            found.setdefault(members[run.cell], []).append(open_run(place))
    return found


Pairs = Sequence[tuple[Sequence[Run], Sequence[Run]]]


def _by_role(pairs: Pairs) -> list[BudgetRow]:
    seconds = [tuple([second for run in side for second in _roles(run)] for side in pair) for pair in pairs]
    names = dict.fromkeys(role for pair in seconds for side in pair for second in side for role in second)
    names.pop("queries", None)
    whole = [tuple([{**dict.fromkeys(names, 0.0), **second} for second in side] for side in pair) for pair in seconds]
    if not all(side for pair in whole for side in pair):
        return []
    return ratio_changes([(base, arm) for base, arm in whole], {role: (role, "queries", "us/query") for role in names})


def _roles(run: Run) -> list[dict[str, float]]:
    """CPU us of each role in each second of the plain windows; of one in which nothing writes, of all threads."""
    return [
        {"queries": w.counters.queries,
         **({role: own.cpu_ns / 1e3 for role, own in w.counters.roles.items()} or {"all": w.counters.cpu_ns / 1e3})}
        for w in run.series() if w.kind == "plain" and w.counters.queries
    ]  # fmt: skip


def _by_category(pairs: Pairs, tables: Mapping[Path, Categories], sums: Mapping[str, str]) -> list[BudgetRow]:
    """tables: of all these runs, by their directories; sums: the row that another is a part of, by the part's name"""
    weights = {sums.get(row.name, row.name): 0 for table in tables.values() for row in table.rows}
    for row in (row for table in tables.values() for row in table.rows):
        weights[sums.get(row.name, row.name)] += row.weight
    names = [name for name, weight in weights.items() if weight]

    def slices(side: Sequence[Run]) -> ArmSlices:
        plain = [one for run in side for one in slice_columns(run.series(), run.record.threads)]
        profile = []
        for run in side:
            table = tables[run.directory]
            for second in (second for second in table.slices if any(second)):
                profile.append(dict.fromkeys(names, 0.0))
                for row, weight in zip(table.rows, second, strict=True):
                    if weight:
                        profile[-1][sums.get(row.name, row.name)] += weight
        return ArmSlices(plain, profile)

    both = [(slices(base), slices(arm)) for base, arm in pairs]
    if not all(side.plain and side.profile for pair in both for side in pair):
        return []
    return [row for row in latency_budget(both).rows if row.kind in ("cpu", "category")]
