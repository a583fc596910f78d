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
    """A file for speedscope: one sampled profile for each thread, every distinct stack a sample of its weight.

    Folded stacks have no time: speedscope's "Time Order" shows them in the order given, "Left Heavy" merged.
    """
    number: dict[tuple[str, str], int] = {}
    profiles = []
    for thread, members in _by_thread(stacks).items():
        samples = [[number.setdefault(frame, len(number)) for frame in _frames(stack)] for stack in members]
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


def _by_thread(stacks: Sequence[Stack]) -> dict[str, list[Stack]]:
    """The stacks of each thread, or of each thread name where no more is known."""
    threads: dict[str, list[Stack]] = {}
    for stack in stacks:
        threads.setdefault(stack.thread or stack.frames[0], []).append(stack)
    return threads


def _frames(stack: Stack) -> list[tuple[str, str]]:
    """Name and object of each frame."""
    return list(zip(stack.frames, stack.objects or ("",) * len(stack.frames), strict=True))


# Of the processed format; newer Firefox Profilers convert older files, so an old number is the safe one.
_FIREFOX_VERSION = 47
_COLOURS = ("blue", "orange", "yellow", "lightred", "lightblue", "green", "brown", "purple", "magenta", "red")


def firefox_profile(stacks: Sequence[Stack], title: str, unit: str) -> str:
    """A file for the Firefox Profiler: a thread for each thread, objects as libraries, categories as its categories.

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
    libraries = {name: index for index, name in enumerate(sorted({o for s in stacks for o in s.objects if o}))}
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
        "libs": [_library(path) for path in libraries],
        "threads": [
            _thread(name, members, number, unit, category, libraries)
            for number, (name, members) in enumerate(_by_thread(stacks).items(), 1)
        ],
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _library(path: str) -> dict[str, Any]:
    name = path.rpartition("/")[2]
    return {"name": name, "path": path, "debugName": name, "debugPath": path, "breakpadId": "", "codeId": None,
            "arch": ""}  # fmt: skip


def _thread(
    name: str,
    stacks: Sequence[Stack],
    number: int,
    unit: str,
    category: dict[str, int],
    libraries: dict[str, int],
) -> dict[str, Any]:
    comm, _, tid = name.rpartition("/") if stacks[0].thread else (name, "", "")
    strings: dict[str, int] = {}
    resources: dict[str, int] = {}
    functions: dict[tuple[str, str], int] = {}  # name, object
    frames: dict[tuple[int, int], int] = {}  # function, category
    nodes: dict[tuple[int | None, int], int] = {}  # node above, frame
    ends, times, weights = [], [], []
    time: float = 0
    for stack in stacks:
        above: int | None = None
        for depth, frame in enumerate(_frames(stack)):
            inside = category[stack.category] if 0 <= stack.anchor_depth <= depth else 0
            key = (functions.setdefault(frame, len(functions)), inside)
            above = nodes.setdefault((above, frames.setdefault(key, len(frames))), len(nodes))
        weight = stack.weight / 1e6 if unit == "ns" else stack.weight
        ends.append(above)
        times.append(time)
        weights.append(weight)
        time += weight
    for function, path in functions:
        strings.setdefault(function, len(strings))
        if path:
            resources.setdefault(path, len(resources))
    for path in resources:
        strings.setdefault(path.rpartition("/")[2], len(strings))
    count = len(functions)
    kinds = [kind for _, kind in frames]
    return {
        "processType": "default",
        "processName": comm,
        "processStartupTime": 0,
        "processShutdownTime": None,
        "registerTime": 0,
        "unregisterTime": None,
        "pausedRanges": [],
        "name": comm,
        "isMainThread": number == 1,
        "pid": "1",
        "tid": int(tid) if tid.isdecimal() else number,
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
            "name": [strings[function] for function, _ in functions],
            "isJS": [False] * count,
            "relevantForJS": [False] * count,
            "resource": [resources.get(path, -1) for _, path in functions],
            "fileName": [None] * count,
            "lineNumber": [None] * count,
            "columnNumber": [None] * count,
        },
        "resourceTable": {
            "length": len(resources),
            "lib": [libraries[path] for path in resources],
            "name": [strings[path.rpartition("/")[2]] for path in resources],
            "host": [None] * len(resources),
            "type": [1] * len(resources),  # a library
        },
        "nativeSymbols": {"length": 0, "libIndex": [], "address": [], "name": [], "functionSize": []},
        "stringArray": list(strings),
    }
