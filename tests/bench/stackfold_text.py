"""stackfold against its peers on the text of perf script; `make bench` runs it.

Records db_bench with frame pointers, prints the recording with perf script, and folds that text with every program in
turn. All figures of a table come from one run on one machine; times are medians of paired runs, wall clock, with the
text in the page cache and the stacks written to a file.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.bench.common import (
    MIB,
    STACKFOLD,
    Program,
    compare,
    folded_weight,
    in_turn,
    inferno,
    machine,
    peak,
    record_readrandom,
    row,
    say,
)


def record(db: Path, directory: Path, seconds: int) -> Path:
    """The text of one recording of `seconds`."""
    data, text = directory / "perf.data", directory / "perf.txt"
    record_readrandom(db, data, seconds, ["-F", "20000", "-g"])
    with text.open("wb") as out:
        script = ["perf", "script", "--no-inline", "-i", str(data)]
        subprocess.run(script, stdout=out, stderr=subprocess.DEVNULL, check=True)
    data.unlink()
    return text


def real_text(db: Path, directory: Path, megabytes: int) -> tuple[Path, str]:
    """At least so many megabytes of text, and the words for what it is."""
    seconds = 3
    for _ in range(4):
        say(f"recording readrandom for {seconds} s ...")
        text = record(db, directory, seconds)
        size = text.stat().st_size
        if size >= megabytes * 10**6:
            return text, f"one recording of db_bench readrandom, {seconds} s, cpu-clock 20 kHz, frame pointers"
        seconds = min(120, int(seconds * 1.2 * megabytes * 10**6 / max(size, 1)) + 1)
    sys.exit(f"{megabytes} MB of text were not to be had: the last recording gave {size / 1e6:.0f} MB")


def heads(text: Path, directory: Path) -> Iterator[tuple[str, Path]]:
    """The first sixteenth, the first quarter and all of a recording: other samples, not the same ones again."""
    size = text.stat().st_size
    for label, part in (("1x", 16), ("4x", 4)):
        head = directory / f"head-{part}.txt"
        with text.open("rb") as source, head.open("wb") as out:
            left = size // part
            while left > 0:
                block = source.read(min(left, MIB))
                out.write(block)
                left -= len(block)
        yield label, head
        head.unlink()
    yield "16x", text


def measure(text: Path, what: str, directory: Path, runs: int) -> None:
    size = text.stat().st_size
    stackfold = str(STACKFOLD)
    one = Program("stackfold --threads 1", [stackfold, "-q", "--threads", "1", str(text)])
    two = Program("stackfold --threads 2", [stackfold, "-q", "--threads", "2", str(text)])
    peer = Program("inferno-collapse-perf -n 1", [inferno(), "-n", "1", str(text)])
    with_pprof = Program("folded and pprof", [*one.argv, "--pprof", str(directory / "out.pb.gz")])
    programs = [one, with_pprof, two, peer]
    script = os.environ.get("STACKCOLLAPSE_PERF") or shutil.which("stackcollapse-perf.pl")
    perl = Program("stackcollapse-perf.pl", ["perl", script or "", str(text)])
    if script:
        programs.append(perl)

    say(f"\nmachine  {machine()}")
    say(f"input    {size / 1e6:.0f} MB of perf script text: {what}")
    say(f"runs     medians of {runs} paired runs, in turn; a ratio is the median of the pairs' ratios\n")
    in_turn(programs, text, directory, runs)
    weights = {program.name: folded_weight(directory / f"out-{n}.folded") for n, program in enumerate(programs)}
    if (load := os.getloadavg()[0]) > 1.5:
        say(f"load was {load:.1f} at the end: other work ran here; two threads want two idle processors")
    row("work", "figure", "ratio", "goal", None)
    compare("text, 1 thread, against inferno -n 1", peer, one, 4)
    if script:
        compare("text, 1 thread, against stackcollapse-perf.pl", perl, one, 40)
    else:
        row("text against stackcollapse-perf.pl", "not found, skipped", "", ">= 40x", None)
    compare("--threads 2 against 1", one, two, 1.6)
    extra = statistics.median(b / a for a, b in zip(one.seconds, with_pprof.seconds, strict=True)) - 1
    row(
        "pprof written beside folded",
        f"{with_pprof.median():.3f} s / {one.median():.3f} s",
        f"{100 * extra:+.0f} %",
        "<= +20 %",
        extra <= 0.2,
    )
    for label, part in heads(text, directory):
        mib = peak([stackfold, "-q", str(part)])
        stacks = subprocess.run([stackfold, "-q", str(part)], stdout=subprocess.PIPE, check=False).stdout.count(b"\n")
        figure = f"{mib:.1f} MiB, {stacks} stacks"
        row(f"peak memory, {label} input ({part.stat().st_size / 1e6:.0f} MB)", figure, "", "<= 64 MiB", mib <= 64)
    row("peak memory of inferno -n 1, whole input", f"{peak(peer.argv):.1f} MiB", "", "", None)
    say("")
    for program in programs:
        rate = size / 1e6 / program.median()
        cpu = statistics.median(program.cpu_seconds)
        say(
            f"{program.name:<28} {program.median():7.3f} s {rate:6.0f} MB/s   CPU {cpu:6.2f} s   "
            f"weight {weights[program.name]}"
        )
