"""How often nothing is called an effect; `make bench-nulls` runs it.

    python -m tests.bench.nulls [--runs 40] [--loops 4] [--beside CHECKOUT] [--database DIR]
    python -m tests.bench.nulls --seconds REPORT.csv

Runs of a workload with `perf null iolat`, one after the other, beside so many busy loops. Nothing differs within a run:
what `null` cost, its CPU per query against that of the plain turns beside it, and whatever odd rounds have against even
ones, is an effect by chance alone. With `--beside` another checkout's build runs in turns with this one.

`--seconds`: of a report by second of one db_bench with nothing attached, what two designs make of windows that are laid
over it: one of 7 s between plain ones of 7 s, with a bootstrap of the seconds, and 7 turns of 1 s (the rule of
`analysis/rounds.py`), next to each other or 14 s apart.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from ground.results.interval import Interval
from ground.results.metrics import ratio_of
from ground.results.profile import read_profile
from ground.results.record import Window
from ground.results.run import Run, open_run
from ioflame.analysis.bootstrap import Draws, Resamples
from ioflame.analysis.rounds import ProfiledRounds, Sums, interval_of, observer_costs, plain_parts
from tests.bench.common import machine, say
from tests.luck import busy_loops
from tests.places import ROOT
from tests.records import window

WINDOW = 7


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--loops", type=int, default=0, help="busy loops beside")
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT", help="another build, in turns with this one")
    parser.add_argument("--database", type=Path, default=ROOT / "target" / "bench-nulls", metavar="DIR")
    parser.add_argument("--duration", type=int, default=7, help="seconds an observer")
    parser.add_argument("--seconds", type=Path, metavar="REPORT.csv", nargs="*", help="of db_bench, nothing attached")
    options = parser.parse_args()
    if options.seconds:
        for report in options.seconds:
            designs(report)
        return 0
    say(machine())
    builds = {"this build": ROOT} | ({str(options.beside): options.beside} if options.beside else {})
    found: dict[str, dict[str, list[Interval]]] = {name: defaultdict(list) for name in builds}
    with busy_loops(options.loops):
        for number in range(options.runs):
            for name, checkout in builds.items():
                run = measured(checkout, options.database, options.duration)
                for figure, interval in nothings(run):
                    found[name][figure].append(interval)
                seen = found[name]["what null cost, QPS"][-1:]
                say(f"run {number + 1}, {name}: null {words(seen[0]) if seen else 'no interval'}   load {load()}")
    for name, figures in found.items():
        say(f"\n{name}, {options.loops} busy loops: of nothings, called an effect; median width of the interval, ±")
        for figure, intervals in figures.items():
            wrong = sum(not one.low <= 0 <= one.high for one in intervals)
            reach = statistics.median((one.high - one.low) / 2 for one in intervals)
            say(f"  {figure:<48} {wrong:>3} of {len(intervals):>3}   {100 * reach:5.1f} %")
    return 0


def load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def words(one: Interval) -> str:
    return f"{100 * one.estimate:+.1f} % [{100 * one.low:+.1f}, {100 * one.high:+.1f}]"


def measured(checkout: Path, database: Path, duration: int) -> Run:
    """A run of that checkout's build; its directory is removed with the next one's start."""
    out = ROOT / "target" / "bench-nulls-runs"
    argv = [str(checkout / ".venv" / "bin" / "python"), "-m", "ioflame.cli", "profile", "--quiet", "--scale=smoke",
            "--workload=readrandom", f"--duration={duration}", "--collect=perf null iolat", f"--out={out}",
            f"--db-dir={database}"]  # fmt: skip
    done = subprocess.run(argv, cwd=checkout, env={**os.environ, "PYTHONPATH": str(checkout)}, capture_output=True,
                          text=True, check=False)  # fmt: skip
    if done.returncode not in (0, 1):
        sys.exit(done.stdout + done.stderr)
    return open_run((out / "latest").resolve())


def nothings(run: Run) -> Iterator[tuple[str, Interval]]:
    """Differences that are none, by what they are of: relative, around 0."""
    record = run.record
    for cost in record.costs:
        if cost.kind == "null":
            yield "what null cost, QPS", _less_one(cost.qps_ratio)
            if cost.cpu_ratio is not None:
                yield "what null cost, CPU per query", _less_one(cost.cpu_ratio)
    plain = plain_parts(record.windows, record.threads)
    for name in ("qps", "cpuPer", "io.lat"):
        yield from _halves(f"{name}: odd rounds against even ones", plain, partial(ratio_of, name))
    profile = read_profile(run.path("profile.json"))
    rounds = ProfiledRounds.of(record, profile.slices)
    if rounds is None:
        return
    owner = json.loads(run.path("categories.json").read_text())
    every = [sum(weights) for weights in owner["slices"]]
    for place, row in enumerate(owner["rows"]):
        if row["share"] >= 2:
            parts = rounds.parts([weights[place] for weights in owner["slices"]], every)
            known = {number: part for number, part in enumerate(parts, start=1) if part is not None}
            yield from _halves("us of a category: odd rounds against even ones", known, rounds.us_of)


def _halves(name: str, parts: Mapping[int, Sums], of: Callable[[Sums], float]) -> Iterator[tuple[str, Interval]]:
    odd, even = (interval_of([part for n, part in parts.items() if n % 2 == rest], of) for rest in (1, 0))
    if odd is None or even is None or not even.estimate:
        return
    reach = math.hypot((odd.high - odd.low) / 2, (even.high - even.low) / 2) / even.estimate
    change = odd.estimate / even.estimate - 1
    yield name, Interval(change, change - reach, change + reach, odd.n)


def _less_one(ratio: Interval) -> Interval:
    return Interval(ratio.estimate - 1, ratio.low - 1, ratio.high - 1, ratio.n)


def designs(report: Path) -> None:
    rates = [int(line.split(",")[1]) for line in report.read_text().splitlines()[1:] if "," in line][5:]
    say(f"{report.name}: {len(rates)} seconds, QPS {statistics.mean(rates):,.0f} +- {statistics.stdev(rates):,.0f}")
    say(f"  {'design':<44} nothings   called an effect   scatter   width +-")
    for name, of in (
        ("one window of 7 s beside 7 + 7 plain", partial(one_window, rates)),
        ("7 turns of 1 s beside plain ones", partial(in_turns, rates, 2)),
        ("7 turns of 1 s, 14 s apart", partial(in_turns, rates, 14)),
    ):
        found = [ratio for at in range(len(rates)) if (ratio := of(at)) is not None]
        wrong = sum(not one.low <= 1 <= one.high for one in found)
        scatter = statistics.stdev(math.log(one.estimate) for one in found)
        width = statistics.median((one.high - one.low) / 2 for one in found)
        share = f"{100 * wrong / len(found):>14.0f} %"
        say(f"  {name:<44} {len(found):>8}   {share}   {100 * scatter:5.1f} %   {100 * width:6.1f} %")


def one_window(rates: Sequence[int], at: int) -> Interval | None:
    """As it was: both sides resampled by their seconds."""
    if at + 3 * WINDOW > len(rates):
        return None
    before, on, after = (rates[at + i * WINDOW : at + (i + 1) * WINDOW] for i in range(3))
    sides = ([{"q": float(rate), "s": 1.0} for rate in side] for side in (on, [*before, *after]))
    drawn = [Resamples([side], seed=seed).pooled(lambda t: t["q"] / t["s"]) for seed, side in enumerate(sides, start=1)]
    return Draws.combined(lambda a, b: a / b, *drawn).interval(3)


def in_turns(rates: Sequence[int], apart: int, at: int) -> Interval | None:
    """A turn each `apart` seconds, between plain ones."""
    if at + 1 + apart * (WINDOW - 1) + 2 > len(rates):
        return None
    windows: list[Window] = []
    for number in range(WINDOW):
        second = at + apart * number
        if not windows or apart > 2:
            windows.append(_turn("plain", rates[second], number))
        windows += [_turn("null", rates[second + 1], number), _turn("plain", rates[second + 2], number)]
    (cost,) = observer_costs(windows)
    return cost.qps_ratio


def _turn(kind: str, queries: int, number: int) -> Window:
    made = window(kind, 1.0, queries=queries)
    made.round = number + 1
    return made


if __name__ == "__main__":
    sys.exit(main())
