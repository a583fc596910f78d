"""What a run can be trusted for: every check of its record as a light, and their summary in a line."""

from __future__ import annotations

from typing import NamedTuple

from markupsafe import Markup

from ground.results.checks import Verdict, worst
from viz.page.rendering import absent, render
from viz.page.run_view import RunView


class _Light(NamedTuple):
    """kind: class of page.css; sign and word: never told by the colour alone"""

    kind: str
    sign: str
    word: str
    words: str  # where it is the gravest
    plural: str = ""


_LIGHTS = {
    Verdict.OK: _Light("ok", "\u2713", "ok", "Every check passed"),
    Verdict.NOTE: _Light("note", "\u25cb", "note", "Every check passed; some change how the numbers read", "s"),
    Verdict.WARN: _Light("warn", "\u25b2", "warning", "Usable; read the warnings first", "s"),
    Verdict.FAILED: _Light("bad", "\u2715", "failed", "Do not use this run: a check failed"),
    Verdict.BLOCKED: _Light("bad", "\u2715", "blocked", "Do not use this run"),
}
_GRAVEST_FIRST = list(reversed(_LIGHTS))
_NAMED = (Verdict.WARN, Verdict.FAILED, Verdict.BLOCKED)


def verdict(view: RunView, place: str) -> Markup:
    """What is missing, and the gravest of the checks with the names of those that are not passed, in a line or two.

    place: the section of the page that has the checks
    """
    counts = []
    for level in _GRAVEST_FIRST:
        names = [check.name for check in view.record.checks if check.verdict is level]
        if names:
            light = _LIGHTS[level]
            counts.append((f"{len(names)} {light.word}{light.plural * (len(names) > 1)}", names * (level in _NAMED)))
    gravest = _LIGHTS[worst(view.record.checks)] if view.record.checks else None
    return render(
        "verdict.html", missing=view.record.missing, notes=view.notes, gravest=gravest, counts=counts, place=place
    )


def trust(view: RunView) -> Markup:
    """Every check, the gravest first; those that are ok are folded."""
    if not view.record.checks:
        return absent("This run carries no checks.")
    checks = sorted(view.record.checks, key=lambda check: _GRAVEST_FIRST.index(check.verdict))
    return render(
        "trust.html",
        checks=[(check, _LIGHTS[check.verdict]) for check in checks if check.verdict is not Verdict.OK],
        passed=[(check, _LIGHTS[check.verdict]) for check in checks if check.verdict is Verdict.OK],
    )
