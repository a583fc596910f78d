"""`make bench`: stackfold against its peers, on the text of perf script and on perf.data itself, recorded here.

The text is of db_bench with frame pointers; perf.data is that, and of a program in C++ (`-g -O2`) with copied stacks.
All figures of a table come from one run on one machine; times are medians of paired runs, wall clock, with the input in
the page cache and the stacks written to a file. stackfold has the threads it takes unless told otherwise, one for each
processor and at most 4, or one where a row says so; the others have one each.

The yardstick (`folding/examples/chains.rs`) does less than any folder must: it knows no processes, puts nothing in
order and names nothing.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench.common import (
    MIB,
    STACKFOLD,
    Program,
    at_most,
    compare,
    database,
    folded_weight,
    in_turn,
    inferno,
    machine,
    options_of,
    peak,
    processor_time,
    record_readrandom,
    row,
    say,
)
from tests.places import ROOT
from tests.programs import compiled

LEAST_MB = 300
YARDSTICK = ROOT / "target" / "release" / "examples" / "chains"
# A program whose addresses are as expensive to look up as those of large programs in C++.
TEMPLATES = Path(__file__).parent / "templates.cc"


def samples_of(data: Path) -> int:
    wanted = ["-q", "--stats", "/dev/stdout", "-o", "/dev/null"]
    output = subprocess.run([STACKFOLD, *wanted, data], capture_output=True, check=True).stdout
    return int(json.loads(output)["samples"])


def frame_pointers(db: Path, data: Path, least: float, found: Callable[[], float]) -> None:
    """A recording with at least so much of what is found in it; the machine decides how long that takes."""
    seconds = 3
    for _ in range(4):
        say(f"recording readrandom for {seconds} s ...")
        record_readrandom(db, data, seconds, ["-F", "20000", "-g"])
        if (there := found()) >= least:
            return
        seconds = min(150, int(seconds * 1.2 * least / max(there, 1)) + 1)
    sys.exit(f"{least:,.0f} were not to be had: the last recording gave {there:,.0f}")


def real_text(db: Path, directory: Path, megabytes: int) -> Path:
    """At least so many megabytes of text of perf script."""
    data, text = directory / "perf.data", directory / "perf.txt"

    def size() -> float:
        with text.open("wb") as out:
            script = ["perf", "script", "--no-inline", "-i", str(data)]
            subprocess.run(script, stdout=out, stderr=subprocess.DEVNULL, check=True)
        data.unlink()
        return text.stat().st_size

    frame_pointers(db, data, megabytes * 10**6, size)
    return text


def heads(whole: Path) -> Iterator[tuple[str, Path, int]]:
    """The first sixteenth, the first quarter and all of an input: other samples, not the same ones again.

    A recording that was cut is read as far as it goes.
    """
    size = whole.stat().st_size
    for label, part in (("1x", 16), ("4x", 4)):
        head = whole.with_name(f"head-{part}{whole.suffix}")
        with whole.open("rb") as source, head.open("wb") as out:
            left = size // part
            while left > 0:
                out.write(block := source.read(min(left, MIB)))
                left -= len(block)
        yield label, head, part
        head.unlink()
    yield "16x", whole, 1


def peak_memory(whole: Path, what: Callable[[Path, int], str], goal: float | None) -> None:
    for label, part, divisor in heads(whole):
        argv = [str(STACKFOLD), "-q", str(part)]
        mib = peak(argv)
        stacks = subprocess.run(argv, stdout=subprocess.PIPE, check=False).stdout.count(b"\n")
        met, words = (None, "") if goal is None else (mib <= goal, f"<= {goal:g} MiB")
        row(f"peak memory, {label} input ({what(part, divisor)})", f"{mib:.1f} MiB, {stacks} stacks", "", words, met)


def headed(given: str, runs: int) -> None:
    say(f"\nmachine  {machine()}")
    say(f"input    {given}")
    say(f"runs     medians of {runs} paired runs, in turn; a ratio is the median of the pairs' ratios\n")


def by_threads(given: Path, *more: str) -> tuple[Program, Program]:
    """stackfold with the threads it takes, and with one."""
    argv = [str(STACKFOLD), "-q"]
    one = Program("stackfold --threads 1", [*argv, "--threads", "1", str(given), *more])
    return Program("stackfold", [*argv, str(given), *more]), one


def piped(name: str, script: list[str], folder: list[str]) -> Program:
    return Program(name, ["sh", "-c", f"{shlex.join(script)} 2>/dev/null | {shlex.join(folder)}"])


def measure_text(text: Path, directory: Path, runs: int) -> None:
    size = text.stat().st_size
    _, one = by_threads(text)
    two = Program("stackfold --threads 2", [str(STACKFOLD), "-q", "--threads", "2", str(text)])
    peer = Program("inferno-collapse-perf -n 1", [inferno(), "-n", "1", str(text)])
    with_pprof = Program("folded and pprof", [*one.argv, "--pprof", str(directory / "out.pb.gz")])
    programs = [one, with_pprof, two, peer]
    script = os.environ.get("STACKCOLLAPSE_PERF") or shutil.which("stackcollapse-perf.pl")
    perl = Program("stackcollapse-perf.pl", ["perl", script or "", str(text)])
    programs += [perl] if script else []

    headed(f"{size / 1e6:.0f} MB of perf script text: db_bench readrandom, cpu-clock 20 kHz, frame pointers", runs)
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
    at_most("pprof written beside folded", with_pprof, one, 1.2)
    peak_memory(text, lambda part, _: f"{part.stat().st_size / 1e6:.0f} MB", 64)
    row("peak memory of inferno -n 1, whole input", f"{peak(peer.argv):.1f} MiB", "", "", None)
    say("")
    for program in programs:
        rate, cpu = size / 1e6 / program.median(), statistics.median(program.cpu_seconds)
        say(
            f"{program.name:<28} {program.median():7.3f} s {rate:6.0f} MB/s   CPU {cpu:6.2f} s   "
            f"weight {weights[program.name]}"
        )


def measure_recording(db: Path, directory: Path, samples: int, runs: int) -> None:
    build = ["cargo", "build", "-q", "--release", "--locked", "--workspace"]
    subprocess.run([*build, "--example", "chains"], check=True)
    data = directory / "fp.data"
    frame_pointers(db, data, samples * 0.95, lambda: samples_of(data))
    found = samples_of(data)
    headed(f"{data.stat().st_size / 1e6:.0f} MB, {found} samples: db_bench readrandom, cpu-clock, frame pointers", runs)
    row("work", "figure", "ratio", "goal", None)
    ours, one = by_threads(data)
    alone = Program("records and chains alone", [str(YARDSTICK), str(data)])
    peer = piped("perf script | inferno -n 1", ["perf", "script", "-i", str(data)], [inferno(), "-n", "1"])
    with_pprof, pprof_by_one = by_threads(data, "--pprof", str(directory / "out.pb.gz"))
    in_turn([ours, one, alone, with_pprof, peer, pprof_by_one], data, directory, runs)
    compare("fp, against perf script | inferno", peer, ours, 10)
    compare("the same, --threads 1", peer, one, 10)
    at_most("against reading records and hashing chains alone", ours, alone, 2)
    at_most("the same, --threads 1", one, alone, 2)
    processor_time("the same, processor time", one, alone)
    compare("all threads against --threads 1", one, ours, 1)
    at_most("pprof written beside folded", with_pprof, ours, 1.2)
    at_most("the same, --threads 1", pprof_by_one, one, 1.2)
    processor_time("the same, processor time", pprof_by_one, one)
    weights = [folded_weight(directory / f"out-{number}.folded") for number in (0, 4)]
    say(f"weights: stackfold {weights[0]}, peer {weights[1]}")
    peak_memory(data, lambda _, divisor: f"about {found // divisor} samples", None)


def measure_copied_stacks(directory: Path, runs: int) -> None:
    """A program of many templates, with debug information and without frame pointers, recorded with copied stacks."""
    say("building and recording templates.cc ...")
    stacks = directory / "dwarf.data"
    program = compiled(TEMPLATES, directory / "templates", "-std=c++17", "-g", "-O2")
    perf = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "2999", "-m", "2048", "--call-graph", "dwarf,16384"]
    quiet = subprocess.DEVNULL
    subprocess.run([*perf, "-o", stacks, "--", program, "10"], stdout=quiet, stderr=quiet, check=True)
    size = stacks.stat().st_size / 1e6
    say(f"\ninput    {size:.0f} MB, {samples_of(stacks)} samples: templates.cc with debug information, copied stacks\n")
    row("work", "figure", "ratio", "goal", None)
    script, folder = ["perf", "script", "-i", str(stacks)], [str(STACKFOLD), "-q"]
    ours, one = by_threads(stacks)
    plain = Program("stackfold --no-inlines", [*one.argv, "--no-inlines"])
    by_text = piped("perf script | stackfold", script, folder)
    no_inline = piped("perf script --no-inline | stackfold", [*script, "--no-inline"], folder)
    in_turn([ours, one, plain, no_inline, by_text], stacks, directory, runs)
    compare("dwarf, inlines, against perf script's", by_text, ours, 100)
    compare("the same, --threads 1", by_text, one, 100)
    compare("dwarf, inlines, against --no-inline", no_inline, ours, 3)
    compare("the same, --threads 1", no_inline, one, 3)
    processor_time("the same, processor time", no_inline, one)
    compare("dwarf, no inlines on either side, --threads 1", no_inline, plain, 3)
    compare("all threads against --threads 1", one, ours, 1)


def main() -> None:
    # only: text or recording; text: to be folded instead of one that is recorded here
    options = options_of(__doc__, only="", megabytes=LEAST_MB, samples=350_000, runs=5, text=None)
    if not STACKFOLD.exists():
        sys.exit(f"{STACKFOLD} is not built: make setup")
    with tempfile.TemporaryDirectory(prefix="stackfold-bench-") as name:
        directory = Path(name)
        db = directory / "db" if options.only == "text" and options.text else database(directory)
        if options.only != "recording":
            text = options.text or real_text(db, directory, options.megabytes)
            measure_text(text, directory, options.runs)
            if not options.text:
                text.unlink()
        if options.only != "text":
            measure_recording(db, directory, options.samples, options.runs)
            measure_copied_stacks(directory, options.runs)


if __name__ == "__main__":
    main()
