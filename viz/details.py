"""Puts what pprof knows beside what folded text knows: objects and threads on the stacks that have a category."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from viz.frames import Stack
from viz.pprof import Sample

__all__ = ("detailed", "undetailed_weight")


def detailed(stacks: Sequence[Stack], samples: Sequence[Sample]) -> list[Stack]:
    """Each stack split by thread and by the objects of its frames.

    The stacks decide: one whose samples are not in `samples`, or do not add up to its weight, stays as it is. So the
    weights of the result are those of `stacks`, whatever file the samples come from.
    """
    by_frames: dict[tuple[str, ...], list[Sample]] = {}
    for sample in samples:
        by_frames.setdefault(sample.frames, []).append(sample)
    found = []
    for stack in stacks:
        parts = by_frames.get(stack.frames, [])
        if sum(part.weight for part in parts) != stack.weight or not _same_count(stack, parts):
            found.append(stack)
            continue
        found += [
            replace(
                stack,
                weight=part.weight,
                samples=part.samples,
                objects=part.objects if any(part.objects) else (),
                thread=part.thread,
            )
            for part in parts
        ]
    return found


def _same_count(stack: Stack, parts: Sequence[Sample]) -> bool:
    return stack.samples is None or sum(part.samples or 0 for part in parts) == stack.samples


def undetailed_weight(stacks: Sequence[Stack]) -> int:
    """The weight of the stacks for which neither thread nor objects are known."""
    return sum(stack.weight for stack in stacks if not stack.thread and not stack.objects)
