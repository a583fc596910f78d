"""Stacks for other people's viewers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from viz.frames import OTHER, Stack

__all__ = ("firefox_profile", "speedscope")

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_UNITS = {"ns": "nanoseconds", "us": "microseconds", "ms": "milliseconds", "s": "seconds", "bytes": "bytes"}


def speedscope(stacks: Sequence[Stack], title: str, unit: str) -> str:
    """A file for speedscope: one sampled profile for each thread name, every distinct stack a sample of its weight.

    Folded stacks have no time: speedscope's "Time Order" shows them in the order given, "Left Heavy" merged.
    """
    number: dict[str, int] = {}
    threads: dict[str, list[Stack]] = {}
    for stack in stacks:
        threads.setdefault(stack.frames[0], []).append(stack)
    profiles = []
    for thread, members in threads.items():
        samples = [[number.setdefault(frame, len(number)) for frame in stack.frames] for stack in members]
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
        "shared": {"frames": [{"name": name} for name in number]},
        "profiles": profiles,
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


# Of the processed format; newer Firefox Profilers convert older files, so an old number is the safe one.
_FIREFOX_VERSION = 47
_COLOURS = ("blue", "orange", "yellow", "lightred", "lightblue", "green", "brown", "purple", "magenta", "red")


def firefox_profile(stacks: Sequence[Stack], title: str, unit: str) -> str:
    """A file for the Firefox Profiler: a thread for each thread name, categories as its categories.

    ns go as milliseconds of traced time; weights of any other unit as "samples", for the viewer knows no other word.
    Folded stacks have no time: samples stand one after another, each as long as it weighs.
    """
    names = list(dict.fromkeys(stack.category for stack in stacks if stack.category != OTHER))
    category = {OTHER: 0} | {name: index for index, name in enumerate(names, 1)}
    categories = [{"name": "Other", "color": "grey", "subcategories": ["Other"]}]
    categories += [
        {"name": name, "color": _COLOURS[index % len(_COLOURS)], "subcategories": ["Other"]}
        for index, name in enumerate(names)
    ]
    threads: dict[str, list[Stack]] = {}
    for stack in stacks:
        threads.setdefault(stack.frames[0], []).append(stack)
    document = {
        "meta": {
            "interval": 1,
            "startTime": 0,
            "processType": 0,
            "product": title,
            "stackwalk": 1,
            "version": 24,
            "preprocessedProfileVersion": _FIREFOX_VERSION,
            "categories": categories,
            "markerSchema": [],
            "importedFrom": "ioflame",
            "symbolicated": True,
        },
        "libs": [],
        "threads": [
            _thread(name, members, number, unit, category) for number, (name, members) in enumerate(threads.items(), 1)
        ],
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _thread(name: str, stacks: Sequence[Stack], number: int, unit: str, category: dict[str, int]) -> dict[str, Any]:
    strings: dict[str, int] = {}
    frames: dict[tuple[int, int], int] = {}  # function, category
    nodes: dict[tuple[int | None, int], int] = {}  # node above, frame
    ends, times, weights = [], [], []
    time: float = 0
    for stack in stacks:
        above: int | None = None
        for depth, frame in enumerate(stack.frames):
            inside = category[stack.category] if 0 <= stack.anchor_depth <= depth else 0
            key = (strings.setdefault(frame, len(strings)), inside)
            above = nodes.setdefault((above, frames.setdefault(key, len(frames))), len(nodes))
        weight = stack.weight / 1e6 if unit == "ns" else stack.weight
        ends.append(above)
        times.append(time)
        weights.append(weight)
        time += weight
    count = len(strings)
    kinds = [kind for _, kind in frames]
    return {
        "processType": "default",
        "processName": name,
        "processStartupTime": 0,
        "processShutdownTime": None,
        "registerTime": 0,
        "unregisterTime": None,
        "pausedRanges": [],
        "name": name,
        "isMainThread": number == 1,
        "pid": "1",
        "tid": number,
        "samples": {
            "length": len(ends),
            "stack": ends,
            "time": times,
            "weight": weights,
            "weightType": "tracing-ms" if unit == "ns" else "samples",
        },
        "markers": {
            "length": 0,
            "category": [],
            "data": [],
            "endTime": [],
            "name": [],
            "phase": [],
            "startTime": [],
        },
        "stackTable": {
            "length": len(nodes),
            "frame": [frame for _, frame in nodes],
            "prefix": [above for above, _ in nodes],
            "category": [kinds[frame] for _, frame in nodes],
            "subcategory": [0] * len(nodes),
        },
        "frameTable": {
            "length": len(frames),
            "address": [-1] * len(frames),
            "inlineDepth": [0] * len(frames),
            "category": kinds,
            "subcategory": [0] * len(frames),
            "func": [function for function, _ in frames],
            "nativeSymbol": [None] * len(frames),
            "innerWindowID": [None] * len(frames),
            "implementation": [None] * len(frames),
            "line": [None] * len(frames),
            "column": [None] * len(frames),
        },
        "funcTable": {
            "length": count,
            "name": list(range(count)),
            "isJS": [False] * count,
            "relevantForJS": [False] * count,
            "resource": [-1] * count,
            "fileName": [None] * count,
            "lineNumber": [None] * count,
            "columnNumber": [None] * count,
        },
        "resourceTable": {"length": 0, "lib": [], "name": [], "host": [], "type": []},
        "nativeSymbols": {"length": 0, "libIndex": [], "address": [], "name": [], "functionSize": []},
        "stringArray": list(strings),
    }
