"""Stacks for speedscope (speedscope.app)."""

from __future__ import annotations

import json
from collections.abc import Sequence

from viz.flame.stacks import Stack

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_UNITS = {"ns": "nanoseconds", "us": "microseconds", "ms": "milliseconds", "s": "seconds", "bytes": "bytes"}


def speedscope(stacks: Sequence[Stack], title: str, unit: str) -> str:
    """A file for speedscope: one sampled profile for each thread, every distinct stack a sample of its weight.

    Folded stacks have no time: speedscope's "Time Order" shows them in the order given, "Left Heavy" merged.
    """
    number: dict[tuple[str, str], int] = {}
    profiles = []
    for thread, members in by_thread(stacks).items():
        samples = [[number.setdefault(frame, len(number)) for frame in named_frames(stack)] for stack in members]
        weights = [stack.weight for stack in members]
        profiles.append(
            {
                "type": "sampled",
                "name": thread,
                "unit": _UNITS.get(unit, "none"),
                "startValue": 0,
                "endValue": sum(weights),
                "samples": samples,
                "weights": weights,
            }
        )
    document = {
        "$schema": _SCHEMA,
        "name": title,
        "exporter": "ioflame",
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": name, "file": file} if file else {"name": name} for name, file in number]},
        "profiles": profiles,
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def by_thread(stacks: Sequence[Stack]) -> dict[str, list[Stack]]:
    """The stacks of each thread, or of each thread name where no more is known."""
    threads: dict[str, list[Stack]] = {}
    for stack in stacks:
        threads.setdefault(stack.thread or stack.frames[0], []).append(stack)
    return threads


def named_frames(stack: Stack) -> list[tuple[str, str]]:
    """Name and object of each frame."""
    return list(zip(stack.frames, stack.objects or ("",) * len(stack.frames), strict=True))
