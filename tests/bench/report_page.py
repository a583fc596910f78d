"""How long a reader of a report page waits, in a real Chromium, and what the page weighs; each with its goal.

The profile is made here: 100,000 frames in stacks like those of a C++ engine, all data kept, once with names
only and once with objects, threads and numbers of samples. Wall time is what a reader waits on this machine; CPU is
that of the page's main thread, which a busy machine does not change. Each is the least of a few.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.bench.common import options_of
from tests.viz.conftest import ARGUMENTS, CHROMIUM
from viz.flame.stacks import Stack
from viz.flame.tree import FrameTree
from viz.page.report import render_stacks

FRAMES = 100_000
LARGEST_MB = 3.0
LOAD_MS, ACT_MS = 500.0, 100.0

_TYPE = "const i = document.querySelector('[data-part=search]'); i.value = {}; i.dispatchEvent(new Event('input'))"
_CLICK = (
    "const c = document.querySelector('canvas'); const e = c.getBoundingClientRect();"
    "c.dispatchEvent(new MouseEvent('click', { clientX: e.left + e.width / 2, clientY: e.top + 18 * 4 + 9 }))"
)
_CHOOSE = "const v = document.querySelector('[data-part={}]'); v.value = '{}'; v.dispatchEvent(new Event('change'))"


def synthetic(frames: int = FRAMES) -> list[Stack]:
    """Stacks like those of a C++ engine: shared beginnings, depths to 60, names with namespaces and templates."""
    dice = random.Random(7)
    names = [
        f"rocksdb::{dice.choice(('table', 'cache', 'db'))}{i % 97}::Block{i % 13}<rocksdb::Slice>::Call{i}"
        + dice.choice(("", "", "_[k]"))
        for i in range(4000)
    ]
    stacks: dict[tuple[str, ...], int] = {}
    known: set[tuple[str, ...]] = set()
    path: list[str] = ["db_bench"]
    while len(known) < frames - 1:
        path = path[: dice.randint(1, max(1, len(path) - 1))]
        while len(path) < 60 and (len(path) < 4 or dice.random() < 0.85):
            path.append(names[min(int(dice.expovariate(0.7) * len(path) ** 2), 3999)])
            known.add(tuple(path))
        known.add(tuple(path[:1]))
        stacks[tuple(path)] = stacks.get(tuple(path), 0) + dice.randint(1, 10**8)
    return [Stack(frames, weight) for frames, weight in stacks.items()]


def with_details(stacks: list[Stack]) -> list[Stack]:
    """The same, of 8 threads and 6 objects, the heaviest third of the stacks seen on two threads."""
    paths = ["/usr/bin/db_bench", *(f"/usr/lib/x86_64-linux-gnu/lib{n}.so.{n}.8" for n in range(4))]
    heavy = sorted(stacks, key=lambda stack: -stack.weight)[: len(stacks) // 3]
    halves = {id(stack) for stack in heavy}

    def object_of(frame: str) -> str:
        return "[kernel.kallsyms]" if frame.endswith("_[k]") else paths[len(frame) * 7 % len(paths)]

    made = []
    for index, stack in enumerate(stacks):
        objects = ("", *(object_of(frame) for frame in stack.frames[1:]))
        parts = (stack.weight // 2, stack.weight - stack.weight // 2) if id(stack) in halves else (stack.weight,)
        made += [
            replace(
                stack,
                weight=weight,
                samples=1 + weight // 10**6,
                objects=objects,
                thread=f"db_bench/{4000 + (index + part) % 8}",
            )
            for part, weight in enumerate(parts)
        ]
    return made


@contextmanager
def chromium_page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*ARGUMENTS])
        yield browser.new_page(viewport={"width": 1280, "height": 900})
        browser.close()


def load(page: Page, address: str, times: int) -> tuple[float, float]:
    """Milliseconds from navigation to the end of the load event, and of the main thread's CPU until then."""
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent() -> float:
        told = devtools.send("Performance.getMetrics")["metrics"]
        return next(1000 * float(one["value"]) for one in told if one["name"] == "TaskDuration")

    walls, cpus = [], []
    for _ in range(times):
        page.goto("about:blank")
        before = spent()
        page.goto(address)
        page.wait_for_function("window.ioflameRuns")
        cpus.append(spent() - before)
        walls.append(page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd"))
    devtools.detach()
    return float(min(walls)), min(cpus)


def act(page: Page, script: str, before: Callable[[], object], times: int) -> float:
    """Milliseconds of `script` in the page, up to the picture being drawn; `before` takes it back."""
    took: list[float] = []
    for _ in range(times):
        before()
        took.append(
            page.evaluate(f"(() => {{ const t = performance.now(); {script}; return performance.now() - t; }})()")
        )
    return min(took)


def row(what: str, value: float, unit: str, goal: float) -> bool:
    met = value < goal
    print(f"{what:<64} {value:9.2f} {unit:<3} < {goal:<6g} {'met' if met else 'MISSED'}", flush=True)
    return met


def measure(page: Page, stacks: list[Stack], what: str, folder: Path, times: int) -> bool:
    text = render_stacks(stacks, "bench", "ns", 20.0)
    file = folder / "page.html"
    file.write_text(text, encoding="utf-8")
    met = [row(f"{what}: size of the page", len(text.encode()) / 1e6, "MB", LARGEST_MB)]
    wall, cpu = load(page, file.as_uri(), times)
    met += [
        row(f"{what}: load, wall", wall, "ms", LOAD_MS),
        row(f"{what}: load, CPU of the main thread", cpu, "ms", LOAD_MS),
    ]

    def clear() -> None:
        page.evaluate(f"(() => {{ {_TYPE.format(repr(''))} }})()")

    def choose(part: str, value: str) -> Callable[[], object]:
        return lambda: page.evaluate(f"(() => {{ {_CHOOSE.format(part, value)} }})()")

    for name, words in (("search, text", "'Block7'"), ("search, regex", "'/Call.*7$/'")):
        met.append(row(f"{what}: {name}", act(page, _TYPE.format(words), clear, times), "ms", ACT_MS))
    clear()
    met.append(row(f"{what}: zoom", act(page, _CLICK, lambda: page.keyboard.press("Escape"), times), "ms", ACT_MS))
    page.keyboard.press("Escape")
    turns = [("from the leaf", "view", "callers", "callees")]
    if any(stack.thread for stack in stacks):
        turns.append(("threads apart", "threads", "split", "name"))
    for name, part, value, back in turns:
        took = act(page, _CHOOSE.format(part, value), choose(part, back), min(times, 3))
        met.append(row(f"{what}: {name} (another tree)", took, "ms", 2 * LOAD_MS))
        choose(part, back)()
    return all(met)


def main() -> None:
    # runs: each figure is the least of so many
    arguments = options_of(__doc__, runs=5)
    stacks = synthetic()
    print(f"report page of {len(FrameTree(stacks)):,} frames, {len(stacks):,} stacks, headless Chromium")
    with tempfile.TemporaryDirectory() as name, chromium_page() as page:
        met = measure(page, stacks, "names alone", Path(name), arguments.runs)
        met &= measure(page, with_details(stacks), "objects, threads, counts", Path(name), arguments.runs)
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
