"""Services in Rust and Go with RocksDB in them, and allocators that services bring along."""

from __future__ import annotations

import contextlib
import subprocess
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from ground.results.checks import Verdict
from ground.results.files import Files
from ground.results.profile import FoldedStack, read_profile
from ground.results.run import Run, open_run
from tests.conftest import Ioflame
from tests.e2e.test_attach import rocksdb_library, service
from tests.programs import compiled
from tests.until import until

pytestmark = [pytest.mark.long, pytest.mark.needs("perf")]

_HERE = Path(__file__).parent


def watched(ioflame: Ioflame, runs: Path, programs: list[list[str]], at_work: Callable[[], bool]) -> Run:
    """A run that was attached to all of these programs at once."""
    with contextlib.ExitStack() as around:
        pids = [f"--pid={around.enter_context(service(program)).pid}" for program in programs]
        until(at_work)
        words = ("--seconds=6", "--freq=499", "--collect=perf", f"--out={runs}")
        code, said, err = ioflame.run("attach", *pids, *words)
    assert code == 0, said + err
    return open_run((runs / "latest").resolve())


def stacks_by_program(run: Run, view: str) -> dict[str, list[FoldedStack]]:
    found: dict[str, list[FoldedStack]] = {}
    for stack in read_profile(run.path(Files.PROFILE)).each_stack(view):
        found.setdefault(stack.comm, []).append(stack)
    return found


def shares_of(stacks: list[FoldedStack]) -> dict[str, float]:
    """Per cent of all, by category; 0 for what has none."""
    whole = sum(stack.weight for stack in stacks)
    found: dict[str, float] = defaultdict(float)
    for stack in stacks:
        found[stack.category] += 100 * stack.weight / whole
    return found


@pytest.mark.needs("db_bench", "go")
def test_callers_in_rust_and_in_stripped_go_have_names_and_the_engine_its_rows(
    ioflame: Ioflame, tmp_path: Path
) -> None:
    library = rocksdb_library()
    rust, go = tmp_path / "in-rust", tmp_path / "in-go"
    rustc: list[str | Path] = [
        "rustc",
        "--edition=2024",
        "-O",
        "-Cforce-frame-pointers=yes",
        f"-Clink-arg={library}",
        "-o",
        rust,
    ]
    subprocess.run([*rustc, _HERE / "embeds.rs"], check=True)
    build: list[str | Path] = ["go", "build", "-ldflags=-s -w", "-o", go, _HERE / "embeds.go"]
    subprocess.run(["env", f"CGO_LDFLAGS={library}", *build], check=True)
    data = {program: tmp_path / f"{program.name}.data" for program in (rust, go)}

    def flushed() -> bool:
        return all(list(place.glob("*.sst")) for place in data.values())

    programs = [[str(program), str(place)] for program, place in data.items()]
    run = watched(ioflame, tmp_path / "runs", programs, flushed)
    found = stacks_by_program(run, "owner")
    callers = {"in-rust": ("embeds::answer", "look_up"), "in-go": ("main.answer", "main.(*database).lookUp")}
    for name, (caller, called) in callers.items():
        shares = shares_of(found[name])
        assert min(shares[row] for row in ("IBI:Sk", "DBI:Sk", "LRU", "application")) > 0.5, (name, shares)
        gets = [stack for stack in found[name] if any("rocksdb::DBImpl::Get" in frame for frame in stack.frames)]
        whole = [s for s in gets if any(caller in f for f in s.frames) and any(called in f for f in s.frames)]
        assert sum(s.weight for s in whole) > 0.95 * sum(s.weight for s in gets) > 0, (name, gets[:3])
    (incomplete,) = (check for check in run.record.checks if check.name == "incomplete stacks")
    assert incomplete.verdict is not Verdict.FAILED, incomplete.value


_ALLOCATORS = {"glibc": [], "jemalloc": ["-ljemalloc"], "mimalloc": ["-lmimalloc"], "tcmalloc": ["-ltcmalloc_minimal"]}


@pytest.mark.needs("allocators")
def test_memory_is_an_allocators_whichever_a_program_has(ioflame: Ioflame, tmp_path: Path) -> None:
    for name, libraries in _ALLOCATORS.items():
        # The compiler must not take out what is of no use.
        flags = ("-O1", "-fno-builtin", "-Wl,--no-as-needed", *libraries)
        compiled(_HERE / "allocates.c", tmp_path / name, *flags)
    run = watched(ioflame, tmp_path / "runs", [[str(tmp_path / name)] for name in _ALLOCATORS], lambda: True)
    found = stacks_by_program(run, "leaf")
    for name in _ALLOCATORS:
        shares = shares_of(found[name])
        # What is left is the program's own loop, and pages that are touched for the first time.
        assert shares["allocator"] > 60 and shares["other"] + shares["libc"] < 5, (name, shares)
