"""Two sides as one tree: every frame as wide as the mean of both, with a colour only where the comparison found a
difference. And what that rule is, in words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from ground.errors import MeasurementError
from ground.results.frame_differences import FrameDifferences, Line
from viz.flame.palette import Theme
from viz.printable import printable

# What a cost is: CPU of a query, or a part of the whole profile.
PER_QUERY = "us per query"
SHARE = "% of all"

# The colours of assets/difference_graph.js: from this grey of light pages to the ends.
_GREY = 214
_MORE, _LESS, _NEW, _GONE = (245, 150, 50), (90, 165, 235), (230, 110, 30), (70, 140, 225)
_SOME = 0.55
# Weights are integers: so many to a unit of cost.
_SCALE = 1_000_000
# Lines of an explanation.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Kind:
    """A colour: its name in the legend, what it means; colour: None for frames that do not differ."""

    name: str
    about: str
    colour: tuple[int, ...] | None

    def fill(self, theme: Theme) -> str:
        return theme.colours["other"] if self.colour is None else "#{:02x}{:02x}{:02x}".format(*self.colour)


class DifferenceTree:
    """The columns that are drawn of a tree, from frames.json. kinds: the colours that are met, and of how many frames;
    category: the place of each node's among them; weight: the mean of both sides
    """

    samples: list[int] | None = None

    def __init__(self, found: FrameDifferences, unit: str) -> None:
        nodes = found.nodes
        self.depth = nodes.depth
        self.name = ["all", *(printable(found.names[name]) for name in nodes.name[1:])]
        self.weight = [round(_SCALE * (a + b) / 2) for a, b in zip(nodes.before, nodes.after, strict=True)]
        self.end = [len(self.depth)] * len(self.depth)
        above: list[int] = []
        path: list[int] = []
        for node, depth in enumerate(self.depth):
            for ended in path[depth:]:
                self.end[ended] = node
            del path[depth:]
            above.append(path[-1] if path else -1)
            path.append(node)
        below = [0] * len(self.depth)
        for node in reversed(range(len(self.depth))):
            # Costs are rounded each by itself; no frame is narrower than what lies on it.
            self.weight[node] = max(self.weight[node], below[node])
            if node:
                below[above[node]] += self.weight[node]
        if not self.weight[0]:
            raise MeasurementError("no stack with any weight: there is nothing to draw", means="both sides are empty")
        half = _largest(found) / 2
        kinds = _kinds(found, f"{half:.3g} {unit}")
        places = [_place(found, node, half) for node in range(len(self.depth))]
        counts = Counter(places)
        met = sorted({0, *counts})
        self.kinds = [(kinds[place], counts[place]) for place in met]
        self.category = [met.index(place) for place in places]
        self.categories = [kind.name for kind, _ in self.kinds]

    def __len__(self) -> int:
        return len(self.depth)

    @property
    def total(self) -> int:
        return self.weight[0]


def _largest(found: FrameDifferences) -> float:
    nodes = found.nodes
    columns = zip(nodes.before, nodes.after, nodes.different, strict=True)
    return max((abs(after - before) for before, after, different in columns if different), default=0.0)


def _kinds(found: FrameDifferences, half: str) -> list[Kind]:
    """half: of the largest difference, with its unit"""
    base, arm = (printable(side.name) for side in found.sides)
    some = [tuple(round(_GREY + (channel - _GREY) * _SOME) for channel in end) for end in (_MORE, _LESS)]
    return [
        Kind("no significant difference", "its interval includes zero, or there are too few samples", None),
        Kind("more", f"costs more in {arm}, by less than {half}", some[0]),
        Kind("much more", f"costs more in {arm}, by {half} or more", _MORE),
        Kind("less", f"costs less in {arm}, by less than {half}", some[1]),
        Kind("much less", f"costs less in {arm}, by {half} or more", _LESS),
        Kind(f"new in {arm}", f"{base} has no such frame there", _NEW),
        Kind(f"vanished in {arm}", f"{base} alone has such a frame there", _GONE),
    ]


def _place(found: FrameDifferences, node: int, half: float) -> int:
    """Of a node's colour in `_kinds`; half: of the largest difference"""
    nodes = found.nodes
    if not nodes.different[node]:
        return 0
    seen = _seen(found, node)
    if seen != "both":
        return 5 if seen == "new" else 6
    delta = nodes.after[node] - nodes.before[node]
    return (1 if delta > 0 else 3) + (abs(delta) >= half)


def _seen(found: FrameDifferences, node: int) -> str:
    nodes = found.nodes
    before = nodes.samples_before[node] > 0 or nodes.before[node] > 0
    after = nodes.samples_after[node] > 0 or nodes.after[node] > 0
    return "both" if before == after else "new" if after else "vanished"


def packed(found: FrameDifferences, unit: str) -> dict[str, Any]:
    """What assets/two_sides.js reads of it, by node; names are not among it."""
    nodes = found.nodes
    return {
        "objects": [printable(name) for name in found.objects],
        "sides": [{"name": printable(side.name)} for side in found.sides],
        "unit": unit,
        "by": found.rule.by,
        "leastSamples": found.rule.least_samples,
        "object": nodes.object,
        "us": [nodes.before, nodes.after],
        "half": nodes.half,
        "samples": [nodes.samples_before, nodes.samples_after],
        "different": nodes.different,
    }


def rows_of(found: FrameDifferences, node: int, unit: str) -> list[tuple[str, str]]:
    """What is shown of a frame under the pointer, in the words of assets/two_sides.js."""
    nodes, rule = found.nodes, found.rule
    base, arm = (printable(side.name) for side in found.sides)
    before, after = nodes.before[node], nodes.after[node]
    counts = nodes.samples_before[node], nodes.samples_after[node]
    half, delta = nodes.half[node], after - before
    by_share = rule.by == "share"
    n = ["", ""] if by_share else [f", n {count:,}" for count in counts]
    interval = "" if by_share else f" [{delta - half:+.3f}, {delta + half:+.3f}]"
    if nodes.different[node]:
        told = "different" + {"vanished": f": not seen in {arm}", "new": f": not seen in {base}"}.get(
            _seen(found, node), ""
        )
    elif by_share:
        told = "less than what has colour"
    elif sum(counts) < rule.least_samples:
        told = f"too few samples to tell ({rule.least_samples} are needed)"
    else:
        told = "not significant: the interval includes zero"
    return [
        (base, f"{before:.3f} {unit}{n[0]}"),
        (arm, f"{after:.3f} {unit}{n[1]}"),
        ("difference", f"{delta:+.3f} {unit}{interval}"),
        ("", told),
    ]


def differs(found: FrameDifferences, unit: str) -> str:
    """The explanation in a sentence or two."""
    lines = [_line(line, found, unit) for line in found.explanation[:_NAMED]]
    more = len(found.explanation) + found.more_lines - len(lines)
    told = [f"Differs: {'; '.join(lines)}{f'; and {more} more' if more else ''}."] if lines else []
    for one in found.moved[:_NAMED]:
        losing, gaining = (", ".join(map(printable, names)) for names in (one.losing, one.gaining))
        told.append(
            f"Moved within {printable(one.within)}: {losing} {one.lost:+.2f} {unit}, {gaining} {one.gained:+.2f}, "
            f"together {one.sum:+.2f}."
        )
    return " ".join(told) or "No frame differs."


def _line(line: Line, found: FrameDifferences, unit: str) -> str:
    arm = printable(found.sides[1].name)
    where = {"new": f", new in {arm}", "vanished": f", vanished in {arm}"}.get(line.seen, "")
    interval = "" if found.rule.by == "share" else f" [{line.low:+.2f}, {line.high:+.2f}]"
    below = f" (below {printable(line.path[-1])})" if line.path else ""
    return f"{printable(line.name)}{below} {line.delta:+.2f} {unit}{interval}{where}"


def rule_words(found: FrameDifferences, unit: str) -> list[str]:
    """By which a frame has colour, and of what its interval is."""
    rule, (base, arm) = found.rule, found.sides
    of_interrupts = "Frames below an interrupt have no colour: when one comes is the machine's doing."
    if rule.by == "share":
        return [
            f"A frame has colour where the difference is {100 * (rule.least_share or 0):g} % of the whole or more. No "
            "interval: the numbers of samples are not known, so chance is not told from a difference.",
            of_interrupts,
        ]
    smallest = "no frame was seen often enough" if rule.smallest_node is None else f"{rule.smallest_node:.3f} {unit}"
    colour = (
        f"A frame has colour where the interval of its difference leaves zero, all {rule.node_tests:,} frames at once "
        f"({100 * rule.alpha:.0f} % for any colour at all where nothing differs), and both sides together have "
        f"{rule.least_samples} samples or more. The smallest difference that could have colour: {smallest}."
    )
    if rule.by == "samples":
        return [
            colour,
            "Intervals: chance in sampling alone, by the numbers of samples, and by the seconds of a recording of 10 s "
            "or more. There is one profile a side, so what two recordings of one program differ by is not known: "
            "neighbours, caches, where it ran. `ioflame compare` repeats both in turns.",
            of_interrupts,
        ]
    effect = (
        f"{100 * rule.session_effect:.1f} % are allowed for what sessions differ by: there are too few to tell "
        f"({base.sessions} of {base.name}, {arm.sessions} of {arm.name})"
        if rule.session_effect_assumed
        else f"sessions ({base.sessions} and {arm.sessions}) differ by {100 * rule.session_effect:.1f} % of a cost"
    )
    return [colour, f"Intervals: seconds within sessions; {effect}."]
