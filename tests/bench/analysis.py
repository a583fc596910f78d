"""What the analysis after the last window takes, in CPU: `ioflame analyse` of a real smoke run, against one fold of its
recording, and against another ioflame (`--before PATH`) on a copy of the same run.

Pairs in turns; the ratio is the median of the pairs.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.common import STACKFOLD, Program, options_of, row

IOFLAME = Path(sys.executable).with_name("ioflame")
STARTS = 3


def recorded(directory: Path) -> Path:
    """A smoke run with perf, off-CPU stacks and the poor man's profiler."""
    argv = [str(IOFLAME), "profile", "--scale", "smoke", "--collect", "perf offcpu pmp", "--out", "runs"]
    subprocess.run(argv, cwd=directory, check=True, stdout=subprocess.DEVNULL)
    return (directory / "runs" / "latest").resolve()


def cpu(program: Program) -> float:
    return statistics.median(program.cpu_seconds)


def main() -> int:
    # before: the ioflame of another version
    options = options_of(__doc__, runs=5, before=None)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        run = recorded(directory)
        commands = [
            c["argv"] for c in json.loads((run / "run.json").read_text())["commands"] if c["name"] == "analysis"
        ]
        starts = sum(Path(argv[0]).name == "stackfold" for argv in commands)
        row("starts of stackfold after the last window", str(starts), "", f"<= {STARTS}", starts <= STARTS)
        fold = Program("fold", [str(STACKFOLD), "-q", "--kernel", str(run / "perf.data")])
        programs = [fold, Program("analyse", [str(IOFLAME), "analyse", "-q", str(run)])]
        if options.before is not None:
            copy = directory / "before"
            shutil.copytree(run, copy)
            # An older one may have a check that fails on a run of today (exit code 1): it has done the work.
            script = '"$0" analyse -q "$1" || [ $? -eq 1 ]'
            programs.append(Program("before", ["sh", "-c", script, str(options.before), str(copy)]))
        for _ in range(options.runs):
            for program in programs:
                program.run(directory / "out")
        analyse = programs[1]
        figure = f"{cpu(analyse):.2f} s, {cpu(fold):.2f} s"
        row("CPU of ioflame analyse, of one fold of its recording", figure, "", "", None)
        if options.before is not None:
            ratios = sorted(a / b for a, b in zip(analyse.cpu_seconds, programs[2].cpu_seconds, strict=True))
            ratio = statistics.median(ratios)
            figure = f"{cpu(programs[2]):.2f} s before, {cpu(analyse):.2f} s"
            row("CPU of the analysis against the version before", figure, f"{ratio:.2f}x", "< 1x", ratio < 1)
            row("", f"(pairs {ratios[0]:.2f}x to {ratios[-1]:.2f}x)", "", "", None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
