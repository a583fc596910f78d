"""Stacks as the folding tool writes them, and the tree a flame graph is drawn from.

Two line formats are read, both as bytes:

    category<TAB>anchor_depth<TAB>samples<TAB>weight<TAB>comm;root;...;leaf     read_categorised
    comm;root;...;leaf weight                                                   read_folded

Weights are exact integers of any size. Nothing here recurses: a stack may be thousands of frames deep.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ioflame.errors import MeasurementError
from ioflame.results.profile import OTHER, Folded

__all__ = ("OTHER", "FrameTree", "Stack", "by_name", "printable", "read_categorised", "read_folded", "stacks_of")

# What XML 1.0 forbids (production [2] Char); DEL and the C1 controls, which no viewer can show; line
# separators; and the marks that turn the direction of text, which would turn the figures beside a name too.
_NOT_PRINTABLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_WHOLE = re.compile(rb"-?[0-9]+(\.0*)?")  # some folders write 12.00


@dataclass(frozen=True, slots=True)
class Stack:
    """One distinct call stack with its weight.

    frames:        root first; index 0 is the thread name (comm)
    weight:        in the unit of the event, never a number of samples
    samples:       how many samples the weight comes from, None where that was not kept
    category:      what the whole stack is counted under
    anchor_depth:  index of the frame at which that category begins, -1 for `other`
    objects:       the object (DSO) of each frame, "" where it is not known; empty where none is
    thread:        `comm/tid`, "" where the thread is not known
    """

    frames: tuple[str, ...]
    weight: int
    samples: int | None = None
    category: str = OTHER
    anchor_depth: int = -1
    objects: tuple[str, ...] = ()
    thread: str = ""


def printable(raw: bytes | str) -> str:
    """`raw` as text that XML and terminals can hold; what they cannot becomes U+FFFD."""
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    return _NOT_PRINTABLE.sub("\ufffd", text)


def read_categorised(lines: Iterable[bytes]) -> list[Stack]:
    """Read the categorised stacks of the folding tool."""
    stacks = []
    for number, line in enumerate(lines, 1):
        text = line.rstrip(b"\r\n")
        if not text:
            continue
        fields = text.split(b"\t", 4)  # a frame may hold a tab; the first four fields may not
        if len(fields) != 5:
            raise _bad_line(number, text, f"{len(fields)} fields between tabs, not 5")
        category, anchor, samples, weight, stack = fields
        frames = _frames(stack)
        depth = _integer(anchor, number, text, "anchor depth", least=-1)
        name = printable(category)
        if depth >= len(frames):
            raise _bad_line(number, text, f"anchor depth {depth} in a stack of {len(frames)} frames")
        if depth < 0 and name != OTHER:
            raise _bad_line(number, text, f"category {name!r} without an anchor (depth {depth})")
        stacks.append(
            Stack(
                frames,
                _integer(weight, number, text, "weight"),
                _integer(samples, number, text, "number of samples"),
                name,
                depth,
            )
        )
    return stacks


def stacks_of(profile: Folded, view: str | None = None) -> list[Stack]:
    """The stacks of a profile, with their category in `view`, all `other` without one; with threads and objects where
    they are known."""
    known: dict[str, str] = {}

    def shown(name: str) -> str:
        if name not in known:
            known[name] = printable(name)
        return known[name]

    found = []
    for stack in profile.each_stack(view):
        objects = ("", *map(shown, stack.objects)) if any(stack.objects) else ()
        comm = shown(stack.comm)
        found.append(
            Stack(
                (comm, *[shown(frame) or "[no name]" for frame in stack.frames]),
                stack.weight,
                stack.samples,
                shown(stack.category),
                # The command is the first frame here.
                stack.anchor + 1 if stack.anchor >= 0 else -1,
                objects,
                "" if stack.tid is None else f"{comm}/{stack.tid}",
            )
        )
    return found


def by_name(stacks: Iterable[Stack]) -> list[Stack]:
    """The stacks without threads and objects, for which a drawing has no place."""
    return [replace(stack, objects=(), thread="") for stack in stacks]


def read_folded(lines: Iterable[bytes]) -> list[Stack]:
    """Read plain folded text, the format of FlameGraph; every stack is counted as `other`."""
    stacks = []
    for number, line in enumerate(lines, 1):
        text = line.rstrip(b" \t\r\n")
        if not text:
            continue
        stack, space, weight = text.rpartition(b" ")
        if not space or not stack:
            raise _bad_line(number, text, "no stack before the weight")
        stacks.append(Stack(_frames(stack), _integer(weight, number, text, "weight")))
    return stacks


def _frames(stack: bytes) -> tuple[str, ...]:
    return tuple(printable(frame) or "[no name]" for frame in stack.split(b";"))


def _integer(field: bytes, number: int, line: bytes, what: str, least: int = 0) -> int:
    if not _WHOLE.fullmatch(field) or len(field) > 100:
        raise _bad_line(number, line, f"{what} {printable(field[:40])!r} is not a whole number")
    value = int(field.partition(b".")[0])
    if value < least:
        raise _bad_line(number, line, f"{what} {value} is below {least}")
    return value


def _bad_line(number: int, line: bytes, why: str) -> MeasurementError:
    shown = printable(line[:120])
    return MeasurementError(
        f"line {number} of the stacks cannot be read: {why}: {shown!r}",
        means="the file was cut short, or is no folded text; no graph was drawn",
        mend="fold the profile again",
    )


class FrameTree:
    """The stacks merged into a tree, kept in columns in depth-first order.

    Node 0 is the whole profile. The nodes below node `i` are `i + 1 .. end[i] - 1`. Siblings are sorted by
    name, so the same stacks give the same tree in whatever order they come. A node is told from its siblings
    by its name, its object *and* its category: one name is two nodes if rules ever put one prefix into two
    categories, or if two objects hold a function of that name.

    object:           the object of the node's frame, "" where it is not known
    rows:             (node, thread, weight, samples) of what ends at a node, by node and thread
    weight, samples:  totals of the node with everything below it; samples is None where any stack has none
    own:              the weight of the stacks that end here
    """

    def __init__(self, stacks: Iterable[Stack], categories: Sequence[str] = ()) -> None:
        kept = [stack for stack in stacks if stack.weight > 0]
        if not kept:
            raise MeasurementError(
                "no stack with any weight: there is nothing to draw",
                means="the profile recorded no sample, or every stack was filtered out",
                mend="record again for longer, or widen the filter",
            )
        found = {stack.category for stack in kept} | {OTHER}
        self.categories = [*categories, *sorted(found.difference(categories))]
        number = {name: index for index, name in enumerate(self.categories)}
        other = number[OTHER]

        children: list[dict[tuple[str, int, str], int]] = [{}]
        keys: list[tuple[str, int, str]] = [("all", other, "")]
        weights, own = [0], [0]
        samples = [0]
        rows: dict[tuple[int, str], list[int]] = {}
        for stack in kept:
            inside, n, node = number[stack.category], stack.samples or 0, 0
            objects = stack.objects or ("",) * len(stack.frames)
            weights[0] += stack.weight
            samples[0] += n
            for depth, frame in enumerate(stack.frames):
                key = (frame, inside if 0 <= stack.anchor_depth <= depth else other, objects[depth])
                child = children[node].get(key)
                if child is None:
                    child = children[node][key] = len(keys)
                    keys.append(key)
                    children.append({})
                    weights.append(0)
                    own.append(0)
                    samples.append(0)
                node = child
                weights[node] += stack.weight
                samples[node] += n
            own[node] += stack.weight
            row = rows.setdefault((node, stack.thread), [0, 0])
            row[0] += stack.weight
            row[1] += n

        self.depth: list[int] = []
        self.end: list[int] = []
        order = self._lay_out(children)
        self.name = [keys[node][0] for node in order]
        self.category = [keys[node][1] for node in order]
        self.object = [keys[node][2] for node in order]
        place = {node: index for index, node in enumerate(order)}
        self.rows: list[tuple[int, str, int, int]] = sorted(
            (place[node], thread, row[0], row[1]) for (node, thread), row in rows.items()
        )
        self.weight = [weights[node] for node in order]
        self.own = [own[node] for node in order]
        counted = all(stack.samples is not None for stack in kept)
        self.samples = [samples[node] for node in order] if counted else None

    def _lay_out(self, children: Sequence[Mapping[tuple[str, int, str], int]]) -> list[int]:
        """Sets depth and end; the nodes in depth-first order, by the numbers they were made with."""
        order: list[int] = []
        open_nodes: list[int] = []  # places in `order` whose subtree is still being laid out
        todo = [(0, 0)]
        while todo:
            node, depth = todo.pop()
            while len(open_nodes) > depth:
                self.end[open_nodes.pop()] = len(order)
            open_nodes.append(len(order))
            order.append(node)
            self.depth.append(depth)
            self.end.append(0)
            # The last pushed comes first. Code point order is the order of the UTF-8 bytes.
            todo.extend((children[node][key], depth + 1) for key in sorted(children[node], reverse=True))
        for index in open_nodes:
            self.end[index] = len(order)
        return order

    def __len__(self) -> int:
        return len(self.name)

    @property
    def total(self) -> int:
        return self.weight[0]

    def category_weights(self) -> list[int]:
        """The weight of each category: of the stacks that end in it."""
        weights = [0] * len(self.categories)
        for category, own in zip(self.category, self.own, strict=True):
            weights[category] += own
        return weights
