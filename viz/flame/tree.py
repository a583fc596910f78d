"""The tree that a flame graph is drawn from. Nothing here recurses: a stack may be thousands of frames deep."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat, takewhile
from operator import itemgetter
from typing import Protocol

from ground.errors import MeasurementError
from ground.results.profile import OTHER
from viz.flame.stacks import Stack


class DrawnTree(Protocol):
    """The columns that a drawing needs, depth-first, the whole first: weight is a node's with all below it, and the
    nodes below node `i` are `i + 1 .. end[i] - 1`."""

    name: list[str]
    depth: list[int]
    end: list[int]
    weight: list[int]
    category: list[int]
    categories: list[str]
    samples: list[int] | None

    def __len__(self) -> int: ...

    @property
    def total(self) -> int: ...


class FrameTree:
    """The stacks merged into a tree, kept in columns in depth-first order.

    Node 0 is the whole profile. The nodes below node `i` are `i + 1 .. end[i] - 1`. Siblings are sorted by
    name, so the same stacks give the same tree in whatever order they come. Siblings differ in name,
    object *or* category: one name is two nodes if rules ever put one prefix into two categories, or if two
    objects hold a function of that name.

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
        paths = [
            [
                (frame, number[stack.category if 0 <= stack.anchor_depth <= depth else OTHER], of)
                for depth, (frame, of) in enumerate(zip(stack.frames, stack.objects or repeat(""), strict=False))
            ]
            for stack in kept
        ]
        # Sorted by path, stacks come in depth-first order: each shares the first nodes of the one before it.
        keys = sorted({key for path in paths for key in path})
        rank = {key: place for place, key in enumerate(keys)}
        ranks = [[rank[key] for key in path] for path in paths]

        made = [("all", number[OTHER], "")]
        self.depth, self.end, self.weight, self.own, samples = [0], [0], [0], [0], [0]
        rows: dict[tuple[int, str], list[int]] = {}
        before: list[int] = []
        nodes = [0]  # of the stack before, the whole first
        for path, stack in sorted(zip(ranks, kept, strict=True), key=itemgetter(0)):
            same = takewhile(lambda pair: pair[0] == pair[1], zip(before, path, strict=False))
            shared = 1 + len(list(same))
            self._close(nodes[shared:])
            del nodes[shared:]
            for key in path[shared - 1 :]:
                self.depth.append(len(nodes))
                nodes.append(len(made))
                made.append(keys[key])
                for column in (self.end, self.weight, self.own, samples):
                    column.append(0)
            before = path
            n = stack.samples or 0
            for node in nodes:
                self.weight[node] += stack.weight
                samples[node] += n
            self.own[nodes[-1]] += stack.weight
            row = rows.setdefault((nodes[-1], stack.thread), [0, 0])
            row[0] += stack.weight
            row[1] += n
        self._close(nodes)
        self.name = [name for name, _, _ in made]
        self.category = [category for _, category, _ in made]
        self.object = [of for _, _, of in made]
        self.rows = sorted((node, thread, row[0], row[1]) for (node, thread), row in rows.items())
        self.samples = samples if all(stack.samples is not None for stack in kept) else None

    def _close(self, nodes: Iterable[int]) -> None:
        for node in nodes:
            self.end[node] = len(self.depth)

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
