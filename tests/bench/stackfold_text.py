"""stackfold against its peers on the text of perf script; `make bench` runs it.

Records db_bench with frame pointers, prints the recording with perf script, and folds that text with every program in
turn. All figures of a table come from one run on one machine; times are medians of paired runs, wall clock, with the
text in the page cache and the stacks written to a file.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
STACKFOLD = ROOT / "folding" / "target" / "release" / "stackfold"
TOOLS = ROOT / "folding" / "target" / "bench-tools"
INFERNO_VERSION = "0.12.8"
MIB = 1 << 20
LEAST_MB = 300

# What a read needs to go through the whole engine and the kernel: a small cache, O_DIRECT, filters in the cache.
DB_FLAGS = [
    "--num=500000",
    "--key_size=20",
    "--value_size=400",
    "--block_size=8192",
    "--block_align=1",
    "--compression_type=none",
    "--cache_size=16777216",
    "--cache_index_and_filter_blocks=1",
    "--bloom_bits=10",
    "--use_direct_reads=1",
    "--use_direct_io_for_flush_and_compaction=1",
    "--num_levels=8",
    "--write_buffer_size=16777216",
    "--target_file_size_base=16777216",
    "--level_compaction_dynamic_level_bytes=true",
    "--seed=991",
]


@dataclass
class Program:
    """One way to fold, and what it took."""

    name: str
    argv: list[str]
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)

    def run(self, out: Path) -> None:
        before = os.times()
        begin = time.perf_counter()
        with out.open("wb") as stdout:
            subprocess.run(self.argv, stdout=stdout, stderr=subprocess.DEVNULL, check=True)
        self.seconds.append(time.perf_counter() - begin)
        after = os.times()
        children = (after.children_user - before.children_user, after.children_system - before.children_system)
        self.cpu_seconds.append(sum(children))

    def median(self) -> float:
        return statistics.median(self.seconds)


def say(text: str) -> None:
    print(text, flush=True)


def database(directory: Path) -> Path:
    say("loading a database of 500,000 keys ...")
    db = directory / "db"
    command = ["db_bench", "--benchmarks=fillseq,flush,waitforcompaction", f"--db={db}", "--disable_wal=1", *DB_FLAGS]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return db


def record(db: Path, directory: Path, seconds: int) -> Path:
    """The text of one recording of `seconds`."""
    data, text = directory / "perf.data", directory / "perf.txt"
    threads = f"--threads={(os.cpu_count() or 1) + 1}"
    read = ["db_bench", "--benchmarks=readrandom", "--use_existing_db=1", f"--db={db}", threads]
    perf = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "20000", "-g", "-o", str(data), "--"]
    command = [*perf, *read, f"--duration={seconds}", *DB_FLAGS]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    with text.open("wb") as out:
        script = ["perf", "script", "--no-inline", "-i", str(data)]
        subprocess.run(script, stdout=out, stderr=subprocess.DEVNULL, check=True)
    data.unlink()
    return text


def real_text(directory: Path, megabytes: int) -> tuple[Path, str]:
    """At least so many megabytes of text, and the words for what it is."""
    db = database(directory)
    seconds = 3
    for _ in range(4):
        say(f"recording readrandom for {seconds} s ...")
        text = record(db, directory, seconds)
        size = text.stat().st_size
        if size >= megabytes * 10**6:
            return text, f"one recording of db_bench readrandom, {seconds} s, cpu-clock 20 kHz, frame pointers"
        seconds = min(120, int(seconds * 1.2 * megabytes * 10**6 / max(size, 1)) + 1)
    sys.exit(f"{megabytes} MB of text were not to be had: the last recording gave {size / 1e6:.0f} MB")


def inferno() -> str:
    """The peer from crates.io: given, on PATH, or built once into the build directory."""
    name = "inferno-collapse-perf"
    found = os.environ.get("INFERNO_COLLAPSE_PERF") or shutil.which(name)
    if found:
        return found
    binary = TOOLS / "bin" / name
    if not binary.exists():
        say(f"building inferno {INFERNO_VERSION} from crates.io ...")
        install = ["cargo", "install", "-q", "inferno", "--locked", "--version", INFERNO_VERSION]
        subprocess.run([*install, "--bin", name, "--root", str(TOOLS)], check=True)
    return str(binary)


def warm(text: Path) -> None:
    """Into the page cache, before every run: a host that takes pages back would charge the next reader for them."""
    with text.open("rb", buffering=0) as file:
        while file.read(MIB):
            pass


def folded_weight(out: Path) -> int:
    with out.open("rb") as lines:
        return sum(int(line.rpartition(b" ")[2]) for line in lines)


def peak(argv: Sequence[str]) -> float:
    """Peak resident MiB of a run of its own, by VmHWM; rusage would count this program's own pages."""
    most = 0
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            with contextlib.suppress(OSError, StopIteration):
                line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
                most = max(most, int(line.split()[1]))
            time.sleep(0.002)
    return most / 1024


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


def row(work: str, figure: str, ratio: str, goal: str, met: bool | None) -> None:
    verdict = "" if met is None else "met" if met else "NOT MET"
    print(f"{work:<52} {figure:<28} {ratio:>8}  {goal:<10} {verdict}".rstrip(), flush=True)


def compare(work: str, slow: Program, fast: Program, goal: float) -> None:
    ratios = sorted(s / f for s, f in zip(slow.seconds, fast.seconds, strict=True))
    ratio = statistics.median(ratios)
    row(work, f"{slow.median():.3f} s / {fast.median():.3f} s", f"{ratio:.2f}x", f">= {goal:g}x", ratio >= goal)
    row("", f"(pairs {ratios[0]:.2f}x to {ratios[-1]:.2f}x)", "", "", None)


def machine() -> str:
    info = Path("/proc/cpuinfo").read_text()
    model = next((line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name")), "?")
    load = os.getloadavg()[0]
    return f"{model}, {os.cpu_count()} processors, Linux {platform.release()}, load {load:.1f} at the start"


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
    outs = {program.name: directory / f"out-{n}.folded" for n, program in enumerate(programs)}
    for _ in range(runs):
        for program in programs:
            warm(text)
            program.run(outs[program.name])
    weights = {name: folded_weight(out) for name, out in outs.items()}
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=LEAST_MB, help="least size of the text (default: 300)")
    parser.add_argument("--runs", type=int, default=5, help="paired runs (default: 5)")
    parser.add_argument("--text", type=Path, help="fold this text of perf script instead of recording one")
    options = parser.parse_args()
    if not STACKFOLD.exists():
        sys.exit(f"{STACKFOLD} is not built: make setup")
    with tempfile.TemporaryDirectory(prefix="stackfold-bench-") as name:
        directory = Path(name)
        if options.text:
            text, what = options.text, "given with --text"
        else:
            text, what = real_text(directory, options.megabytes)
        measure(text, what, directory, options.runs)


if __name__ == "__main__":
    main()
