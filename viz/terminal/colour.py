"""Colour on a terminal: what failed, what was decided, and bars in the colours that categories have on the page.

Only where the words say the same. It is put into finished text, as it is printed: files, pipes and other programs never
have it, and no width depends on it. So it also reads what is kept as text, such as `summary.txt`.
"""

from __future__ import annotations

import functools
import re

from ground.results.hues import HUES
from ground.results.profile import OTHER
from ground.text.terminal import Colours
from viz.flame.palette import THEMES

_OFF = "\x1b[0m"
# In the terminal's own colours, which its user can read on its ground.
_BAD, _WARN, _OK, _NOTE = "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[36m"
_OF_WORD = {
    "ok": _OK, "note": _NOTE, "warn": _WARN, "failed": _BAD, "blocked": _BAD, "passed": _OK,
    "regressed": _BAD, "improved": _OK, "-": _BAD, "+": _OK,
}  # fmt: skip

# The verdict of a check, to the right in seven columns or, on a run's screen, in six; of what an experiment expects.
_CHECK = re.compile(
    r"^(?=[ a-z]{6,7}  \S) {0,5}(ok|note|warn|failed|blocked)(?=  \S)|^  (passed|failed)(?=: )", re.MULTILINE
)
# Above all else of a run: why it is not to be used, what is not there.
_HEADING = re.compile(r"^(Do not use this run|Checks that failed|Cells that failed)\b.*$", re.MULTILINE)
_MISSING = re.compile(r"^(Missing from this run:|.* was asked for and did not watch:)", re.MULTILINE)
# A figure of a comparison that differs: its mark, and its change within its bar.
_ROW = re.compile(r"^  ([-+])(?= \S+(?:  | +[\d-])).*$", re.MULTILINE)
_CHANGE = re.compile("\u25cf")
_DECIDED = re.compile(r"(?<![\w\"-])(regressed|improved)(?![\w\"-])")
# A bar of a table, and the category whose row it is.
_BAR = re.compile("[\u2588-\u258f]+")
_NAMES = "|".join(re.escape(name) for name in sorted((*HUES, OTHER), key=len, reverse=True))
_CATEGORY = re.compile(rf"(?:^ {{2,8}}|  |\()({_NAMES})(?=[ )])")


def painted(text: str, colours: Colours) -> str:
    """`text`, which nothing of it could steer, with colours of a terminal that has so many."""
    text = _HEADING.sub(lambda found: _in(_BAD, found[0]), text)
    text = _MISSING.sub(lambda found: _in(_WARN, found[0]), text)
    text = _ROW.sub(_row, text)
    text = _CHECK.sub(_word, text)
    text = _DECIDED.sub(_word, text)
    if _BAR.search(text):
        text = "\n".join(_bar(line, colours) for line in text.split("\n"))
    return text


def _in(colour: str, text: str) -> str:
    return f"{colour}{text}{_OFF}"


def _word(found: re.Match[str]) -> str:
    """The word that was found, where it is."""
    place = found.lastindex or 0
    before, after = found[0][: found.start(place) - found.start()], found[0][found.end(place) - found.start() :]
    return f"{before}{_in(_OF_WORD[found[place]], found[place])}{after}"


def _row(found: re.Match[str]) -> str:
    line, colour = found[0], _OF_WORD[found[1]]
    return "  " + _in(colour, found[1]) + _CHANGE.sub(_in(colour, "\u25cf"), line[3:])


def _bar(line: str, colours: Colours) -> str:
    bar = _BAR.search(line)
    # Its short name, where that is in a column of its own, is after the title.
    names = _CATEGORY.findall(line, 0, bar.start()) if bar else []
    if bar is None or not names:
        return line
    return line[: bar.start()] + _in(_hue(names[-1], colours), bar[0]) + line[bar.end() :]


@functools.cache
def _hue(category: str, colours: Colours) -> str:
    """The colour of a category on a dark page, as near as the terminal has it."""
    from rich.color import Color, ColorSystem  # takes longer to load than all else here

    theme = THEMES["dark"]
    shown = theme.colours["other"] if category == OTHER else theme.hues[HUES[category]]
    return f"\x1b[{';'.join(Color.parse(shown).downgrade(ColorSystem[colours]).get_ansi_codes())}m"
