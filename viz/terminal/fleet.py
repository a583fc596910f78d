"""A release over the hosts of a fleet, as lines of the terminal."""

from __future__ import annotations

from ground.results.fleet import FleetPart, Watch
from ground.results.interval import Interval
from ground.text.columns import pad

_MARKS = {"regressed": "-", "improved": "+", "moved": "~", "temporary": "0", "mix": "m", "": " "}
_TOLD = ("regressed", "improved", "moved", "temporary")


def render_watch(watch: Watch, base: str, arm: str) -> str:
    """What was compared, a line a part, and what the columns are; the verdict comes last."""
    hosts = f"{watch.hosts[0]:,} hosts of {base}, {watch.hosts[1]:,} of {arm}"
    lines = [f"{hosts}, {watch.days} days on which both ran, {watch.strata} strata that both have; {watch.unit}", ""]
    heads = f"{'':2}{base:>9} {arm:>9}  {'within strata':>27}  {'mix':>9}  {'cores':>8}  part"
    lines += [heads, *(line for part in watch.parts for line in _lines(part)), ""]
    lines += [
        "- regressed, + improved: within strata of one test, CPU and kernel; ~ moved between functions of a class;",
        "0 temporary: seen on the named days only; m mix: other hosts, not another cost.",
        "Intervals of 95 %, hosts are the units; cores: of all hosts of it.",
        _last(watch, arm),
    ]
    return "\n".join(lines)


def _lines(part: FleetPart) -> list[str]:
    lines, gone = [_line(part)], part.away
    if gone is not None:
        when = f"{gone.first} to {gone.last}" if gone.last > gone.first else f"on {gone.last}"
        after = f"gone after {gone.days} day{'s' * (gone.days > 1)}, {when}"
        lines.append(f"    {after}: {_interval(gone.change)} then, {_interval(gone.since)} since")
    return lines


def _line(part: FleetPart) -> str:
    of = part.change
    cores = "" if part.cores is None else f"{part.cores:+.2f}"
    kind = "" if part.kind == "category" else f"  ({part.kind})"
    return (
        f"{pad(_MARKS[part.verdict], 2)}{of.base:>9.3f} {of.arm:>9.3f}  {_interval(of.within):>27}  "
        f"{of.mix.estimate:>+9.3f}  {cores:>8}  {part.name}{kind}"
    )


def _interval(of: Interval) -> str:
    return f"{of.estimate:+.3f} [{of.low:+.3f}, {of.high:+.3f}]"


def _last(watch: Watch, arm: str) -> str:
    told = [part for part in watch.parts if part.verdict in _TOLD and part.kind != "total"]
    among = f"among {watch.tested:,} functions and categories, of what is found at most 5 % by chance"
    if not told:
        return f"nothing found, {among}"
    counts = {word: sum(part.verdict == word for part in told) for word in _TOLD}
    return f"{arm}: " + ", ".join(f"{count} {word}" for word, count in counts.items() if count) + f"; {among}"
