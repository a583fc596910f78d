"""A comparison made in code, as a page is fed with it: sessions of blocks, their verdicts, and frames of both arms.

Windows are as a client's counters would have them; the profiles are folded by stackfold itself.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from folding.frames import ProfileRun, compare_frames
from folding.stackfold import run_stackfold
from ground.results.comparison import Arm, Block, BlockWindow, Comparison, Factor, Plan, Process, Session
from ground.results.frame_differences import FrameDifferences
from ground.results.metrics import window_metrics
from ground.results.record import Window
from ground.results.verdicts import ArmVerdict, Verdicts
from ioflame.analysis.compare.budget import ArmSlices, latency_budget
from ioflame.analysis.compare.figures import ArmWindow
from ioflame.analysis.compare.verdict import Costs, VerdictRule, compare
from tests.records import window
from viz.page.compare import ComparisonView

SESSIONS, BLOCKS = 6, 4
QUERIES = 20_000
# Samples a second.
RATES: Mapping[str, int] = {
    "main;eng::Db::Get;eng::Cache::Lookup": 40,
    "main;eng::Db::Get;eng::Block::Seek;memcmp": 30,
    "main;eng::Db::Get;pread;vfs_read_[k];blk_mq_submit_[k]": 60,
    "main;eng::Random::Next": 20,
}
SLOWER: Mapping[str, int] = {"main;eng::Db::Get;eng::Cache::Lookup": 60, "main;eng::Db::Get;eng::Spin::Wait": 15}
# How many pixels of the differential flame graph are neither grey, nor the page's, nor text.
COLOURED = """() => { const c = document.querySelector('.difference canvas');
  const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0;
  for (let k = 0; k < d.length; k += 4) {
    if (Math.max(d[k], d[k + 1], d[k + 2]) - Math.min(d[k], d[k + 1], d[k + 2]) > 24) n++; } return n; }"""


def frames(directory: Path, more: Mapping[str, int] | None = None, sessions: int = SESSIONS) -> FrameDifferences:
    """The frames of B against A's, by stackfold; more: samples a second of stacks in B, the rest is as in A."""
    dice = random.Random(11)
    sides = []
    for name, wanted in (("A", RATES), ("B", {**RATES, **(more or {})})):
        runs = []
        for session in range(sessions):
            profile = directory / f"{name}{session}.json"
            fold(wanted, dice, profile)
            runs.append(ProfileRun(profile, QUERIES, session=str(session)))
        sides.append((name, runs))
    return compare_frames(sides, directory / "frames.json")


def sample_lines(of: str, stack: str, program: str) -> list[str]:
    """One sample as perf script prints it. of: comm, process, CPU and time; stack: folded, `_[k]` marks the kernel"""
    lines = [f"{of}:   1000000 cpu-clock: "]
    for frame in reversed(stack.split(";")):
        where = "[kernel.kallsyms]" if frame.endswith("_[k]") else program
        lines.append(f"\t 401136 {frame.removesuffix('_[k]')} ({where})")
    return [*lines, ""]


def fold(rates: Mapping[str, int], dice: random.Random, profile: Path) -> None:
    """Five seconds of samples, so many a second but for chance."""
    lines: list[str] = []
    for second in range(5):
        for stack, rate in rates.items():
            seen = max(0, round(dice.gauss(rate, math.sqrt(rate))))
            for sample in range(seen):
                lines += sample_lines(f"db_bench 1/1 [000] {second}.{sample:06}", stack, "/a/libeng.so.1")
    text = "\n".join([*lines, ""]).encode()
    run_stackfold(["--kernel", "--slice-ms", "1000", "-"], profile, "rocksdb", data=text).require("stackfold")


def record(slower: float = 1.0, **changes: object) -> Comparison:
    """Six sessions; B's windows take `slower` times the CPU and time of A's."""
    dice = random.Random(5)
    old, new = {"engine": "7.8.3"}, {"engine": "7.9.0"}
    arms = [
        Arm("A", "/b/1/db_bench", 1, identity=old),
        Arm("B", "/b/2/db_bench", 1, identity=new),
        Arm("A2", "/b/1/db_bench", 1, twin_of="A", identity=old),
    ]
    plan = Plan("frozen", "shared", 7, 0.02, [4, 6], 6, BLOCKS, 5.0, 1.0, 5.0, ["perf"], rule="t")
    sessions = []
    for number in range(1, SESSIONS + 1):
        made = []
        for _ in range(BLOCKS):
            order = dice.choice((["A", "B", "A2", "A2", "B", "A"], ["B", "A2", "A", "A", "A2", "B"]))
            windows = [BlockWindow(arm, place, _window(arm, slower, dice)) for place, arm in enumerate(order)]
            made.append(Block(order, windows))
        processes = [Process(arm.name, f"session-{number}-{arm.name}", 100) for arm in arms]
        sessions.append(Session(number, 1e9 + 100 * number, processes, made, whole=True, seconds=100.0))
    host = {"cpus": "2", "cpu": "Model", "kernel": "6.18"}
    factor = Factor("engine build", ["/b/1/db_bench", "/b/2/db_bench"])
    created = "2026-11-23T00:00:00+0000"
    given = Comparison("0.1.0", created, "rocksdb", "readrandom", factor, plan, arms, host, sessions=sessions)
    return replace(given, **changes)  # type: ignore[arg-type]


def _window(arm: str, slower: float, dice: random.Random) -> Window:
    factor = (slower if arm == "B" else 1.0) * (1 + dice.gauss(0, 0.004))
    queries = round(50_000 / factor)
    reads = queries // 2
    return window(
        "plain", 5, queries=queries, cpu_ns=round(1e9 * (1 + dice.gauss(0, 0.003))), user_ns=600_000_000,
        system_ns=400_000_000, storage_reads=reads, storage_read_ms=reads * 80 / 1000,
    )  # fmt: skip


def view(
    directory: Path, slower: float = 1.0, more: Mapping[str, int] | None = None, **changes: object
) -> ComparisonView:
    made = record(slower, **changes)
    sessions = [
        [[ArmWindow(w.arm, window_metrics([w.window], 1)) for w in block.windows] for block in session.counted()]
        for session in made.sessions
    ]
    costs = Costs(20.0, 24.0)
    found = compare(sessions, "A", "B", VerdictRule(0.02, (4, 6)), costs, twin="A2", bars=made.not_comparable)
    told = ", ".join(f"{name} {found.decisions[name].verdict}" for name in ("qps", "cpuPer"))
    budget = latency_budget([_slices(session) for session in made.sessions], resamples=200)
    verdict = ArmVerdict("A", "B", dict(found.decisions), dict(found.twin), dict(found.position), budget)
    blocks = sum(len(session.blocks) for session in made.sessions)
    verdicts = Verdicts(
        f"B against A: {told}", 0.02, SESSIONS, blocks, [4, 6], 7, "t", 600.0, [verdict], made.differing,
        made.not_comparable, ["counts: steal 7 %"],
    )  # fmt: skip
    return ComparisonView(made, verdicts, {"B": frames(directory, more)})


def _slices(session: Session) -> tuple[ArmSlices, ArmSlices]:
    def of(arm: str) -> ArmSlices:
        windows = [w.window for block in session.blocks for w in block.windows if w.arm == arm]
        plain = [
            {"queries": w.counters.queries or 0, "thread_us": 5e6, "cpu_us": w.counters.cpu_ns / 1000} for w in windows
        ]
        profile: Sequence[Mapping[str, float]] = [{"LRU": 300.0, "libc+k": 700.0} for _ in windows]
        waits = [{"queries": w.counters.queries or 0, "run queue": 1e6, "device": 3e6} for w in windows]
        return ArmSlices(plain, profile, [waits])

    return of("A"), of("B")
