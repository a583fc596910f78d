"""stackfold on perf.data itself, against perf script and a folder behind it.

Two recordings are made: db_bench with frame pointers, and a program in C++, built with `-g -O2`, with copied stacks.
Times are medians of paired runs, wall clock, with the recording in the page cache. stackfold has the threads it takes
unless told otherwise, one for each processor and at most 4, or one where a row says so; the others have one each.

The yardstick (`folding/examples/chains.rs`) does less than any folder must: it knows no processes, puts nothing in
order and names nothing.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.bench.common import (
    STACKFOLD,
    Program,
    at_most,
    compare,
    folded_weight,
    in_turn,
    inferno,
    machine,
    peak,
    processor_time,
    record_readrandom,
    row,
    say,
)
from tests.places import ROOT
from tests.programs import compiled

YARDSTICK = ROOT / "target" / "release" / "examples" / "chains"
# A program whose addresses are as expensive to look up as those of large programs in C++.
TEMPLATES = Path(__file__).parent / "templates.cc"


def samples_of(data: Path) -> int:
    output = subprocess.run([STACKFOLD, "stats", "--format", "json", data], capture_output=True, check=True).stdout
    return int(json.loads(output)["samples"])


def frame_pointers(db: Path, directory: Path, samples: int) -> tuple[Path, int]:
    """A recording of at least 19 of 20 samples asked for, and its samples."""
    data, seconds = directory / "fp.data", 3
    for _ in range(4):
        say(f"recording readrandom for {seconds} s ...")
        record_readrandom(db, data, seconds, ["-F", "20000", "-g"])
        found = samples_of(data)
        if found >= samples * 0.95:
            break
        seconds = min(180, int(seconds * samples / max(found, 1)) + 1)
    return data, found


def copied_stacks(directory: Path) -> Path:
    """A program of many templates, with debug information and without frame pointers, recorded with copied stacks."""
    say("building and recording templates.cc ...")
    stacks = directory / "dwarf.data"
    program = compiled(TEMPLATES, directory / "templates", "-std=c++17", "-g", "-O2")
    perf = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "2999", "-m", "2048", "--call-graph", "dwarf,16384"]
    subprocess.run(
        [*perf, "-o", stacks, "--", program, "10"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return stacks


def ours_and_one(data: Path) -> tuple[Program, Program]:
    """stackfold with the threads it takes, and with one."""
    argv = [str(STACKFOLD), "-q"]
    one = Program("stackfold --threads 1", [*argv, "--threads", "1", str(data)])
    return Program("stackfold", [*argv, str(data)]), one


def piped(name: str, script: list[str], folder: list[str]) -> Program:
    return Program(name, ["sh", "-c", f"{shlex.join(script)} 2>/dev/null | {shlex.join(folder)}"])


def pieces(data: Path, directory: Path, samples: int) -> Iterator[tuple[str, Path, int]]:
    """The first sixteenth, the first quarter and all of a recording: a file that was cut is read as far as it goes."""
    size = data.stat().st_size
    for label, part in (("1x", 16), ("4x", 4)):
        head = directory / f"head-{part}.data"
        with data.open("rb") as source:
            head.write_bytes(source.read(size // part))
        yield label, head, samples // part
        head.unlink()
    yield "16x", data, samples


def measure(db: Path, directory: Path, samples: int, runs: int) -> None:
    stackfold = str(STACKFOLD)
    build = ["cargo", "build", "-q", "--release", "--locked", "--workspace"]
    subprocess.run([*build, "--example", "chains"], check=True)
    data, found = frame_pointers(db, directory, samples)
    say(f"\nmachine  {machine()}")
    say(f"input    {data.stat().st_size / 1e6:.0f} MB, {found} samples: db_bench readrandom, cpu-clock, frame pointers")
    say(f"runs     medians of {runs} paired runs, in turn; a ratio is the median of the pairs' ratios\n")
    row("work", "figure", "ratio", "goal", None)
    script = ["perf", "script", "-i", str(data)]
    ours, one = ours_and_one(data)
    alone = Program("records and chains alone", [str(YARDSTICK), str(data)])
    peer = piped("perf script | inferno -n 1", script, [inferno(), "-n", "1"])
    with_pprof = Program("folded and pprof", [*ours.argv, "--pprof", str(directory / "out.pb.gz")])
    pprof_by_one = Program("the same, --threads 1", [*one.argv, "--pprof", str(directory / "out.pb.gz")])
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
    for label, piece, of in pieces(data, directory, found):
        mib = peak([stackfold, "-q", str(piece)])
        output = subprocess.run([stackfold, "-q", str(piece)], capture_output=True, check=False).stdout
        figure = f"{mib:.1f} MiB, {output.count(bytes([10]))} stacks"
        row(f"peak memory, {label} input (about {of} samples)", figure, "", "", None)

    stacks = copied_stacks(directory)
    size = stacks.stat().st_size / 1e6
    say(f"\ninput    {size:.0f} MB, {samples_of(stacks)} samples: templates.cc with debug information, copied stacks\n")
    row("work", "figure", "ratio", "goal", None)
    script = ["perf", "script", "-i", str(stacks)]
    ours, one = ours_and_one(stacks)
    plain = Program("stackfold --no-inlines", [*one.argv, "--no-inlines"])
    by_text = piped("perf script | stackfold", script, [stackfold, "-q"])
    no_inline = piped("perf script --no-inline | stackfold", [*script, "--no-inline"], [stackfold, "-q"])
    in_turn([ours, one, plain, no_inline, by_text], stacks, directory, runs)
    compare("dwarf, inlines, against perf script's", by_text, ours, 100)
    compare("the same, --threads 1", by_text, one, 100)
    compare("dwarf, inlines, against --no-inline", no_inline, ours, 3)
    compare("the same, --threads 1", no_inline, one, 3)
    processor_time("the same, processor time", no_inline, one)
    compare("dwarf, no inlines on either side, --threads 1", no_inline, plain, 3)
    compare("all threads against --threads 1", one, ours, 1)
