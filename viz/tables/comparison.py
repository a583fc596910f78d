"""What a comparison decides, figure by figure, and where a change comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from ground.results.differences import AccountChange, BudgetRow, Decision, percent
from ground.results.verdicts import ArmVerdict
from ground.text.titles import title_of
from viz.figures import account_digits
from viz.interval_bars import Change, Scale, scale_of
from viz.table import ABOUT, DRAWN, WORDS, Column, Table, fixed

_R = TypeVar("_R")

# Of a mark, the class of its colour on a page.
_KINDS = {"-": "bad", "+": "ok"}

_Figure = tuple[str, Decision]


def decisions_table(
    title: str, base: str, arm: str, decisions: Mapping[str, Decision], more: str = ""
) -> Table[_Figure]:
    """A row a figure, its mark first: - regressed, + improved, = same within delta, ? undecided or barred."""
    value = fixed(2)
    delta = max((one.delta for one in decisions.values()), default=0.0)
    scale = scale_of(map(_place, decisions.values()), 100 * delta)
    columns = [
        Column[_Figure]("", "figure", WORDS, lambda row: f"{row[1].mark} {title_of(row[0])}"),
        Column("", base, value, lambda row: row[1].base_value),
        Column("", arm, value, lambda row: row[1].arm_value),
        Column("", "ratio", fixed(3), lambda row: _ratio(row[1]), on="page"),
        Column("", "interval", fixed(3), lambda row: _interval(row[1]), on="page"),
        Column("", "change", WORDS, lambda row: _change(row[1]), on="screen"),
        *_bars(scale, lambda row: _place(row[1]), " %", lambda row: _KINDS.get(row[1].mark, "")),
        Column("", "verdict", ABOUT, lambda row: row[1].in_words),
    ]
    legend = f"Bars: the interval; the line is zero, dots are delta ({percent(delta)}), < and >: wider than the scale."
    return Table("", title, columns, list(decisions.items()), legend=legend if scale else "", more=more)


def _bars(
    scale: Scale | None,
    of: Callable[[_R], Change | None],
    unit: str = "",
    kind: Callable[[_R], str] = lambda _: "",
    *,
    spare: bool = False,
) -> Iterator[Column[_R]]:
    """The column of intervals, where there is one. kind: class of a row's colour on a page; spare: as `Form` has it"""
    if scale is not None:
        form = replace(DRAWN, spare=spare)
        yield Column("", scale.head(unit), form, lambda row: scale.text(of(row)), on="screen")
        yield Column("", scale.head_markup(unit), form, lambda row: scale.svg(of(row), kind(row)), on="page")


def _place(decision: Decision) -> Change | None:
    """In percent."""
    found = decision.difference
    return None if found is None else Change(*(100 * (end - 1) for end in (found.low, found.ratio, found.high)))


def _ratio(decision: Decision) -> float | None:
    return None if decision.difference is None else decision.difference.ratio


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

    def place(row: BudgetRow) -> Change | None:
        return Change(row.low, row.change, row.high) if row.unit == unit else None

    columns = [
        Column[BudgetRow]("", "part", WORDS, lambda row: "\u2003" * row.depth + title_of(row.name)),
        Column("", one.base, figure, lambda row: row.base),
        Column("", one.arm, figure, lambda row: row.arm),
        Column("", "change", fixed(digits, "+"), lambda row: row.change),
        Column("", "interval", figure, lambda row: f"[{row.low:+,.{digits}f}, {row.high:+,.{digits}f}]"),
        *_bars(scale_of(map(place, rows)), place, spare=True),
        Column("", "", WORDS, lambda row: ("" if row.unit == unit else f"{row.unit}; ") + _seen(row)),
    ]
    return Table("", title, columns, rows, legend=legend)


def _seen(row: BudgetRow) -> str:
    return "significant" if row.seen else "not significant"
