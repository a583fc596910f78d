"""What a comparison decides, figure by figure, and where a change comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ground.results.differences import AccountChange, BudgetRow, Decision
from ground.results.verdicts import ArmVerdict
from ground.text.titles import title_of
from viz.figures import account_digits
from viz.table import ABOUT, WORDS, Column, Table, fixed

_Figure = tuple[str, Decision]


def decisions_table(
    title: str, base: str, arm: str, decisions: Mapping[str, Decision], more: str = ""
) -> Table[_Figure]:
    """A row a figure, its mark first: - regressed, + improved, = same within delta, ? undecided or barred."""
    value = fixed(2)
    columns = [
        Column[_Figure]("", "figure", WORDS, lambda row: f"{row[1].mark} {row[0]}"),
        Column("", base, value, lambda row: row[1].base_value),
        Column("", arm, value, lambda row: row[1].arm_value),
        Column("", "ratio", fixed(3), lambda row: row[1].difference and row[1].difference.ratio, on="page"),
        Column("", "interval", fixed(3), lambda row: _interval(row[1]), on="page"),
        Column("", "change", WORDS, lambda row: _change(row[1]), on="screen"),
        Column("", "verdict", ABOUT, lambda row: row[1].in_words),
    ]
    return Table("", title, columns, list(decisions.items()), more=more)


def _interval(decision: Decision) -> str | None:
    found = decision.difference
    return None if found is None else f"[{found.low:.3f}, {found.high:.3f}]"


def _change(decision: Decision) -> str:
    if decision.difference is None:
        return ""
    found = decision.difference
    change, low, high = (100 * (value - 1) for value in (found.ratio, found.low, found.high))
    return f"{change:+.1f} % [{low:+.1f}, {high:+.1f}]"


def changes_of(one: ArmVerdict) -> Iterator[Table[BudgetRow] | str]:
    """The budget of the change of an arm, and its accounts; a sentence where there is no budget."""
    budget = one.budget
    if budget is None:
        yield f"{one.arm}: no budget: its profiles or waits were not measured."
    else:
        legend = (
            f"us per query, of all seconds (the figures pair blocks); {budget.off or 'the rows add up'}. Intervals are "
            f"of the change, hold for all rows at once with 95 %, and come from {budget.sessions} sessions."
        )
        title = f"Where the change of {one.arm} comes from: {one.arm} - {one.base}, us per query"
        yield _changes(title, one, budget.shown, 2, "us/query", legend)
    yield from (_account(one, account) for account in one.accounts)


def _account(one: ArmVerdict, account: AccountChange) -> Table[BudgetRow]:
    legend = (
        f"{account.unit}; the first row is what the others add up to. From the windows of observers, one a process and "
        f"session. Intervals hold for all rows at once with 95 %, and come from {account.sessions} sessions."
    )
    title = f"{account.title}: {one.arm} - {one.base}, {account.unit}"
    return _changes(title, one, account.rows, account_digits(account.rows[0].base), account.unit, legend)


def _changes(
    title: str, one: ArmVerdict, rows: Sequence[BudgetRow], digits: int, unit: str, legend: str
) -> Table[BudgetRow]:
    figure = fixed(digits)
    columns = [
        Column[BudgetRow]("", "part", WORDS, lambda row: "\u2003" * row.depth + title_of(row.name)),
        Column("", one.base, figure, lambda row: row.base),
        Column("", one.arm, figure, lambda row: row.arm),
        Column("", "change", fixed(digits, "+"), lambda row: row.change),
        Column("", "interval", figure, lambda row: f"[{row.low:+,.{digits}f}, {row.high:+,.{digits}f}]"),
        Column("", "", ABOUT, lambda row: ("" if row.unit == unit else f"{row.unit}; ") + _seen(row)),
    ]
    return Table("", title, columns, rows, legend=legend)


def _seen(row: BudgetRow) -> str:
    return "significant" if row.seen else "not significant"
