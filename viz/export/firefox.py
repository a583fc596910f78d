"""Stacks for the Firefox Profiler (profiler.firefox.com)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ground.results.profile import OTHER
from viz.export.speedscope import by_thread, named_frames
from viz.flame.palette import hue_places
from viz.flame.stacks import Stack

# Of the processed format; newer Firefox Profilers convert older files, so an old number is the safe one.
_FIREFOX_VERSION = 47
_COLOURS = ("blue", "orange", "yellow", "lightred", "lightblue", "green", "brown", "purple", "magenta", "red")


def firefox_profile(stacks: Sequence[Stack], title: str, unit: str) -> str:
    """A file for the Firefox Profiler: a thread for each thread, objects as libraries, categories as its categories.

    ns go as milliseconds of traced time; weights of any other unit as "samples", for the viewer knows no other word.
    Folded stacks have no time: samples follow one another, each as long as its weight.
    """
    names = list(dict.fromkeys(stack.category for stack in stacks if stack.category != OTHER))
    category = {OTHER: 0} | {name: index for index, name in enumerate(names, 1)}
    categories = [{"name": "Other", "color": "grey", "subcategories": ["Other"]}]
    categories += [
        {"name": name, "color": _COLOURS[hue % len(_COLOURS)], "subcategories": ["Other"]}
        for name, hue in zip(names, hue_places(names), strict=True)
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
            for number, (name, members) in enumerate(by_thread(stacks).items(), 1)
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
    functions: dict[tuple[str, str], int] = {}  # name, object
    frames: dict[tuple[int, int], int] = {}  # function, category
    nodes: dict[tuple[int | None, int], int] = {}  # node above, frame
    ends, times, weights = [], [], []
    time: float = 0
    for stack in stacks:
        above: int | None = None
        for depth, frame in enumerate(named_frames(stack)):
            inside = category[stack.category] if 0 <= stack.anchor_depth <= depth else 0
            key = (functions.setdefault(frame, len(functions)), inside)
            above = nodes.setdefault((above, frames.setdefault(key, len(frames))), len(nodes))
        weight = stack.weight / 1e6 if unit == "ns" else stack.weight
        ends.append(above)
        times.append(time)
        weights.append(weight)
        time += weight
    samples = _table(len(ends), stack=ends, time=times, weight=weights)
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
        "samples": {**samples, "weightType": "tracing-ms" if unit == "ns" else "samples"},
        "markers": _table(0, category=[], data=[], endTime=[], name=[], phase=[], startTime=[]),
        **_stack_tables(list(nodes), list(frames)),
        **_function_tables(list(functions), libraries),
        "nativeSymbols": _table(0, libIndex=[], address=[], name=[], functionSize=[]),
    }


def _stack_tables(nodes: Sequence[tuple[int | None, int]], frames: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """nodes: node above and frame; frames: function and category"""
    kinds = [kind for _, kind in frames]
    prefix, frame = [above for above, _ in nodes], [frame for _, frame in nodes]
    return {
        "stackTable": _table(
            len(nodes), frame=frame, prefix=prefix, category=[kinds[one] for one in frame], subcategory=0
        ),
        "frameTable": _table(
            len(frames), address=-1, inlineDepth=0, category=kinds, subcategory=0, func=[func for func, _ in frames],
            nativeSymbol=None, innerWindowID=None, implementation=None, line=None, column=None,
        ),
    }  # fmt: skip


def _function_tables(functions: Sequence[tuple[str, str]], libraries: dict[str, int]) -> dict[str, Any]:
    """functions: name and object; an object is a resource, which is a library"""
    resources = {path: place for place, path in enumerate(dict.fromkeys(path for _, path in functions if path))}
    files = [path.rpartition("/")[2] for path in resources]
    strings = {text: place for place, text in enumerate(dict.fromkeys([*(name for name, _ in functions), *files]))}
    return {
        "funcTable": _table(
            len(functions), name=[strings[name] for name, _ in functions], isJS=False, relevantForJS=False,
            resource=[resources.get(path, -1) for _, path in functions],
            fileName=None, lineNumber=None, columnNumber=None,
        ),
        "resourceTable": _table(
            len(resources), lib=[libraries[path] for path in resources], name=[strings[file] for file in files],
            host=None, type=1,
        ),
        "stringArray": list(strings),
    }  # fmt: skip


def _table(length: int, **columns: object) -> dict[str, Any]:
    """Columns of `length`; what is no list is the value of every row."""
    rows = {name: value if isinstance(value, list) else [value] * length for name, value in columns.items()}
    return {"length": length, **rows}
