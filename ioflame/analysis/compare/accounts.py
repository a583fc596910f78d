"""What the accounts of two arms differ by, row by row, in sessions of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ground.results.accounts import ALL, Account
from ground.results.differences import AccountChange
from ioflame.analysis.compare.budget import ratio_changes

# One session says nothing of the next.
_FEWEST_SESSIONS = 2
# As a share of all, in both arms: rows below it are one.
_SMALL = 0.01
SMALLER = "smaller rows"


def account_changes(sessions: Sequence[tuple[Mapping[str, Account], Mapping[str, Account]]]) -> list[AccountChange]:
    """base and arm of each session, by the accounts' names -> every account that two sessions and more have of both."""
    names = dict.fromkeys(name for base, _ in sessions for name in base)
    found = []
    for name in names:
        pairs = [(base[name], arm[name]) for base, arm in sessions if name in base and name in arm]
        if len(pairs) >= _FEWEST_SESSIONS:
            found.append(account_change(pairs))
    return found


def account_change(pairs: Sequence[tuple[Account, Account]], resamples: int = 1000) -> AccountChange:
    """Of one account. Rows of a session are its sums over its work, those of a side the sums of all its sessions."""
    first = pairs[0][0]
    names = _rows([[base for base, _ in pairs], [arm for _, arm in pairs]])
    sessions = [(_slice(base, names), _slice(arm, names)) for base, arm in pairs]
    ratios = {name: (name, "work", first.unit) for name in (ALL, *names)}
    whole, *rows = ratio_changes([([base], [arm]) for base, arm in sessions], ratios, resamples=resamples)
    # One row is all of it.
    told = (whole, *(replace(row, kind="row") for row in rows)) if len(rows) > 1 else (whole,)
    return AccountChange(first.name, first.title, first.unit, told, len(pairs))


def _rows(sides: Sequence[Sequence[Account]]) -> list[str]:
    """The rows of both sides in their order, without those that are small in both; SMALLER where there are such."""
    names = dict.fromkeys(name for side in sides for one in side for name in one.rows)
    kept = [name for name in names if any(_share(side, name) >= _SMALL for side in sides)]
    return [*kept, SMALLER] if len(kept) < len(names) - 1 else list(names)


def _share(side: Sequence[Account], name: str) -> float:
    whole = sum(one.all for one in side)
    return sum(one.rows.get(name, 0.0) for one in side) / whole if whole else 0.0


def _slice(one: Account, names: Sequence[str]) -> dict[str, float]:
    kept = {name: one.rows.get(name, 0.0) for name in names if name != SMALLER}
    rest = {SMALLER: one.all - sum(kept.values())} if SMALLER in names else {}
    return {"work": one.work, ALL: one.all, **kept, **rest}
