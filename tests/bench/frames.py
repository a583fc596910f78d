"""How long two sides of 100,000 nodes and 120 seconds take to be compared frame by frame, and to be drawn.

Each side is a recording of two busy CPUs at 1 kHz for 120 seconds: 240,000 samples. Both in four sessions, as a
comparison has them.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path

from folding.frames import ProfileRun, compare_frames
from ground.results.frame_differences import FrameDifferences
from tests.bench.common import options_of, took
from tests.bench.report_page import FRAMES, act, chromium_page, load, row, synthetic
from viz.flame.tree import FrameTree
from viz.page.document import page as whole_page
from viz.page.frames import frames_compared

SECONDS, SAMPLES, SESSIONS = 120, 240_000, 4
COMPARE_S, DRAW_MS = 2.0, 500.0


def profile(tree: FrameTree, dice: random.Random, seconds: int, samples: int, path: Path) -> None:
    """A profile of every stack of the tree, each sample in a second of its own."""
    names = sorted(set(tree.name))
    place = {name: number for number, name in enumerate(names)}
    ends = [node for node, *_ in tree.rows]
    weights = [weight for _, _, weight, _ in tree.rows]
    seen = [*range(len(ends)), *dice.choices(range(len(ends)), weights, k=max(0, samples - len(ends)))]
    cells: dict[tuple[int, int], int] = {}
    totals = [0] * len(ends)
    for stack in seen:
        cell = (dice.randrange(seconds), stack)
        cells[cell] = cells.get(cell, 0) + 1
        totals[stack] += 1
    ordered = sorted(cells.items())
    # Node 0 of the tree is the whole, which a profile has not; below it is the thread, which is here a frame.
    data = {
        "schema": 1,
        "statistics": {"event": "cpu-clock", "unit": "ns", "samples": len(seen)},
        "names": names,
        "objects": ["/usr/bin/db_bench"],
        "frames": {"name": list(range(len(names))), "object": [0] * len(names)},
        "threads": {"name": [place["db_bench"]]},
        "nodes": {"depth": [depth - 1 for depth in tree.depth[1:]], "frame": [place[name] for name in tree.name[1:]]},
        "stacks": {
            "thread": [0] * len(ends),
            "node": [end - 1 for end in ends],
            "weight": [total * 1_000_000 for total in totals],
            "samples": totals,
        },
        "slices": {
            "slice": [second for (second, _), _ in ordered],
            "stack": [stack for (_, stack), _ in ordered],
            "weight": [count * 1_000_000 for _, count in ordered],
        },
    }
    path.write_text(json.dumps(data))


def compared(tree: FrameTree, folder: Path, sessions: int) -> tuple[FrameDifferences, float]:
    dice = random.Random(3)
    sides = []
    for name in ("A", "B"):
        runs = []
        for session in range(sessions):
            path = folder / f"{name}{session}.json"
            profile(tree, dice, SECONDS // sessions, SAMPLES // sessions, path)
            runs.append(ProfileRun(path, 1_000_000, session=str(session)))
        sides.append((name, runs))
    found: list[FrameDifferences] = []
    least = min(took(lambda: found.append(compare_frames(sides, folder / "frames.json")))[0] for _ in range(3))
    return found[-1], least


def main() -> int:
    arguments = options_of(__doc__, runs=5)
    tree = FrameTree(synthetic(FRAMES))
    met = []
    with tempfile.TemporaryDirectory() as name, chromium_page() as page:
        folder = Path(name)
        for sessions in (1, SESSIONS):
            found, seconds = compared(tree, folder, sessions)
            nodes = f"{len(found.nodes.depth):,} nodes x {SECONDS} s x 2 sides, {sessions} sessions a side"
            met.append(row(f"{nodes}: compare", seconds, "s", COMPARE_S))
        text = whole_page("bench", frames_compared(found))
        file = folder / "page.html"
        file.write_text(text, encoding="utf-8")
        print(f"size of the page: {len(text.encode()) / 1e6:.1f} MB", flush=True)
        wall, cpu = load(page, file.as_uri(), arguments.runs)
        met += [
            row("drawn: load, wall", wall, "ms", DRAW_MS),
            row("drawn: load, CPU of the main thread", cpu, "ms", DRAW_MS),
        ]
        again = "ioflameDifferences[0].change({shows: 'new'}); ioflameDifferences[0].change({shows: 'merged'})"
        met.append(row("drawn: another tree and back", act(page, again, lambda: None, arguments.runs), "ms", DRAW_MS))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
