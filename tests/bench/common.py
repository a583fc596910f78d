"""What the benchmarks share: options, the database and who reads it, the peers, timing and rows."""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import resource
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.places import ROOT

STACKFOLD = ROOT / "target" / "release" / "stackfold"
TOOLS = ROOT / "target" / "bench-tools"
INFERNO_VERSION = "0.12.8"
MIB = 1 << 20

# What a read needs to go through the whole engine and the kernel: a small cache, O_DIRECT, filters in the cache.
DB_FLAGS = [
    "--num=500000", "--key_size=20", "--value_size=400", "--block_size=8192", "--block_align=1",
    "--compression_type=none", "--cache_size=16777216", "--cache_index_and_filter_blocks=1", "--bloom_bits=10",
    "--use_direct_reads=1", "--use_direct_io_for_flush_and_compaction=1", "--num_levels=8",
    "--write_buffer_size=16777216", "--target_file_size_base=16777216",
    "--level_compaction_dynamic_level_bytes=true", "--seed=991",
]  # fmt: skip


@dataclass
class Program:
    """One way to fold, and what it took."""

    name: str
    argv: list[str]
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)

    def run(self, out: Path) -> None:
        # Removing what the run before wrote, and closing the file, are the file system's: for 75 MB they take a fourth
        # of the time of a fast folder.
        out.unlink(missing_ok=True)
        with out.open("wb") as stdout:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            begin = time.perf_counter()
            subprocess.run(self.argv, stdout=stdout, stderr=subprocess.DEVNULL, check=True)
            self.seconds.append(time.perf_counter() - begin)
        # Finer than os.times, which counts ticks.
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.cpu_seconds.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)

    def median(self) -> float:
        return statistics.median(self.seconds)


def options_of(about: str | None, **defaults: object) -> argparse.Namespace:
    """--NAME=VALUE for each, of its default's type; options of other benchmarks of `make bench` are passed over."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    for name, value in defaults.items():
        word = f"--{name.replace('_', '-')}"
        if value is False:
            parser.add_argument(word, action="store_true", help=" ")
        elif isinstance(value, list):
            parser.add_argument(word, type=type(value[0]) if value else str, nargs="+", default=value, help=" ")
        else:
            parser.add_argument(word, type=Path if value is None else type(value), default=value, help=" ")
    return parser.parse_known_args()[0]


def say(text: str) -> None:
    print(text, flush=True)


def took(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock and of CPU."""
    begin, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - begin, time.process_time() - cpu


def db_bench(benchmarks: str, db: Path, *flags: str) -> list[str]:
    return ["db_bench", f"--benchmarks={benchmarks}", f"--db={db}", *flags, *DB_FLAGS]


@contextlib.contextmanager
def reading(db: Path, threads: int, log: Path) -> Iterator[int]:
    """The pid of a db_bench that reads at random for as long as it takes, once it is under way."""
    command = db_bench("readrandom", db, "--use_existing_db=1", f"--threads={threads}", "--duration=86400")
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
        try:
            time.sleep(3.0)
            yield process.pid
        finally:
            process.kill()
            process.wait()


@dataclass(frozen=True)
class Look:
    """At a process: when, in s; its read calls, bytes that it had from the device, CPU of all threads."""

    moment: float
    calls: int
    read_bytes: int
    cpu_ns: int

    @staticmethod
    def at(pid: int) -> Look:
        io = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
        tasks = Path(f"/proc/{pid}/task").iterdir()
        cpu = sum(int(task.joinpath("schedstat").read_text().split()[0]) for task in tasks)
        return Look(time.monotonic(), int(io["syscr"]), int(io["read_bytes"]), cpu)

    def rate(self, later: Look) -> float:
        """Read calls a second."""
        return (later.calls - self.calls) / (later.moment - self.moment)


def database(directory: Path) -> Path:
    say("loading a database of 500,000 keys ...")
    db = directory / "db"
    command = db_bench("fillseq,flush,waitforcompaction", db, "--disable_wal=1")
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return db


def record_readrandom(db: Path, data: Path, seconds: int, options: Sequence[str]) -> None:
    """Records db_bench readrandom, one thread more than there are processors."""
    threads = f"--threads={(os.cpu_count() or 1) + 1}"
    read = db_bench("readrandom", db, "--use_existing_db=1", threads, f"--duration={seconds}")
    perf = ["perf", "record", "-q", "-e", "cpu-clock", *options, "-o", str(data), "--"]
    subprocess.run([*perf, *read], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


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


def row(work: str, figure: str, ratio: str, goal: str, met: bool | None) -> None:
    verdict = "" if met is None else "met" if met else "NOT MET"
    print(f"{work:<52} {figure:<28} {ratio:>8}  {goal:<10} {verdict}".rstrip(), flush=True)


def compare(work: str, slow: Program, fast: Program, goal: float) -> None:
    """How many times as fast as `slow` is `fast`?"""
    ratios = sorted(s / f for s, f in zip(slow.seconds, fast.seconds, strict=True))
    ratio = statistics.median(ratios)
    row(work, f"{slow.median():.3f} s / {fast.median():.3f} s", f"{ratio:.2f}x", f">= {goal:g}x", ratio >= goal)
    row("", f"(pairs {ratios[0]:.2f}x to {ratios[-1]:.2f}x)", "", "", None)


def at_most(work: str, whole: Program, part: Program, goal: float) -> None:
    """How many times the time of `part` does `whole` take?"""
    ratio = statistics.median(w / p for w, p in zip(whole.seconds, part.seconds, strict=True))
    row(work, f"{whole.median():.3f} s / {part.median():.3f} s", f"{ratio:.2f}x", f"<= {goal:g}x", ratio <= goal)


def processor_time(work: str, whole: Program, part: Program) -> None:
    """The same for the processors' time, which two threads do not make less; no goal."""
    ratio = statistics.median(w / max(p, 0.001) for w, p in zip(whole.cpu_seconds, part.cpu_seconds, strict=True))
    seconds = [statistics.median(program.cpu_seconds) for program in (whole, part)]
    row(work, f"{seconds[0]:.3f} s / {seconds[1]:.3f} s CPU", f"{ratio:.2f}x", "", None)


def in_turn(programs: Sequence[Program], source: Path, directory: Path, runs: int) -> None:
    """Runs every program so often, one after the other, each with the input in the page cache."""
    for _ in range(runs):
        for number, program in enumerate(programs):
            warm(source)
            program.run(directory / f"out-{number}.folded")


def machine() -> str:
    info = Path("/proc/cpuinfo").read_text()
    model = next((line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name")), "?")
    load = os.getloadavg()[0]
    return f"{model}, {os.cpu_count()} processors, Linux {platform.release()}, load {load:.1f} at the start"
