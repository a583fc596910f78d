"""Turns of a profile: what they find of an effect that is there, by hand."""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ground.results.record import RunRecord
from ground.results.run import Run
from ground.system.observer import NullObserver
from ground.text.progress import Reporter
from ioflame.instruments import INSTRUMENTS
from ioflame.instruments.instrument import Instrument
from ioflame.measure.job import new_record, resolve
from ioflame.measure.profile import database_of, load_and_measure
from tests.e2e.commands import script
from tests.figures import Report
from tests.ioflame.asked import options
from tests.programs import compiled
from workloads.database import locked

# Each read of the workload spins for at least so long while the flag is set: the last look at the clock ends later, and
# how much CPU one spin takes is measured by itself.
SPIN_US = 2.0
SPINS = 100_000
_SPIN = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <time.h>

static volatile char *flag;

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("SPIN_FLAG");
	int file = path ? open(path, O_RDONLY) : -1;
	flag = file < 0 ? 0 : mmap(0, 1, PROT_READ, MAP_SHARED, file, 0);
}

static __attribute__((noinline)) void spin(void)
{
	struct timespec begun, now;
	clock_gettime(CLOCK_MONOTONIC, &begun);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - begun.tv_sec) * 1000000000L + now.tv_nsec - begun.tv_nsec < SPIN_NS);
}

void spins(int number)
{
	while (number--)
		spin();
}

ssize_t pread64(int file, void *buffer, size_t size, off64_t at)
{
	static ssize_t (*next)(int, void *, size_t, off64_t);
	if (!next)
		next = dlsym(RTLD_NEXT, "pread64");
	if (flag && *flag)
		spin();
	return next(file, buffer, size, at);
}

ssize_t pread(int file, void *buffer, size_t size, off_t at)
{
	return pread64(file, buffer, size, at);
}
"""


class Spin(NullObserver):
    """An observer that costs each read of the workload some CPU, in its turns alone."""

    kind, what = "spin", "each read spins"

    def __init__(self, flag: mmap.mmap) -> None:
        self._flag = flag

    def open(self) -> None:
        self._flag[0] = 1

    def close(self) -> None:
        self._flag[0] = 0


def in_process(out: Path, words: list[str]) -> RunRecord:
    """A profile with the spin, which the command line does not know."""
    reporter = Reporter(quiet=True)
    job = resolve(replace(options(*words, f"--out={out}"), collect=("perf", "null", "spin")), reporter)
    run = Run.create(out, new_record(job))
    with locked(job.db_dir):
        load_and_measure(job, database_of(job), run, reporter)
    return run.record


def spin_us(library: Path) -> float:
    """us of CPU that one spin takes."""
    spins = ctypes.CDLL(str(library)).spins
    before = time.process_time_ns()
    spins(SPINS)
    return (time.process_time_ns() - before) / 1e3 / SPINS


@pytest.fixture
def flag(tmp_path: Path) -> Iterator[mmap.mmap]:
    path = tmp_path / "flag"
    path.write_bytes(b"\0")
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 1) as flag:
        yield flag


@pytest.mark.by_hand
@pytest.mark.needs("perf", "db_bench")
def test_an_effect_is_found_at_its_size(
    short: list[str], tmp_path: Path, flag: mmap.mmap, figure: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = compiled(
        _SPIN, tmp_path / "spin.so", "-shared", "-fPIC", "-O2", f"-DSPIN_NS={int(1e3 * SPIN_US)}", "-ldl"
    )
    preload = f"LD_PRELOAD={library} SPIN_FLAG={tmp_path / 'flag'}"
    bench = script(tmp_path / "db_bench", f'{preload} exec db_bench "$@"')
    spin = Instrument("spin", order=9, observer=lambda _: Spin(flag), takes_turns=True)
    monkeypatch.setattr(INSTRUMENTS, "_by_name", {**INSTRUMENTS, "spin": spin})
    took = spin_us(library)
    figure("CPU of one spin, us", took)
    found = 0
    for number in range(int(os.environ.get("SPIN_RUNS", "10"))):
        record = in_process(tmp_path / str(number), [*short[1:], "--duration=8", f"--db-bench={bench}"])
        (cost,) = (cost for cost in record.costs if cost.kind == "spin")
        assert cost.cpu_ratio is not None
        added = 1 + took * record.metrics["readsPerQuery"] / record.metrics["cpuPer"]
        seen = cost.cpu_ratio
        inside = seen.low > 1 and seen.low <= added <= seen.high
        found += inside
        figure(f"run {number}: CPU per query [{seen.low:.3f}, {seen.high:.3f}]", seen.estimate, expected=f"{added:.3f}")
    figure("runs in which it is found, at its size", found, expected="9 of 10")
