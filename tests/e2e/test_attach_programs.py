"""Services in Rust and Go with RocksDB in them, and allocators that services bring along: all watched at once."""

from __future__ import annotations

import contextlib
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from ground.results.files import Files
from ground.results.profile import FoldedStack, read_profile
from ground.results.run import Run
from tests.e2e.commands import attached, rocksdb_library, service
from tests.programs import compiled
from tests.until import until

pytestmark = [
    pytest.mark.long,
    pytest.mark.xdist_group("programs"),
    pytest.mark.needs("perf", "db_bench", "go", "allocators"),
]

_HERE = Path(__file__).parent
_ALLOCATORS = {"glibc": [], "jemalloc": ["-ljemalloc"], "mimalloc": ["-lmimalloc"], "tcmalloc": ["-ltcmalloc_minimal"]}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    place, library = tmp_path_factory.mktemp("programs"), rocksdb_library()
    rustc = ["rustc", "--edition=2024", "-O", "-Cforce-frame-pointers=yes", f"-Clink-arg={library}"]
    subprocess.run([*rustc, "-o", place / "in-rust", _HERE / "embeds.rs"], check=True)
    go: list[str | Path] = ["go", "build", "-ldflags=-s -w", "-o", place / "in-go", _HERE / "embeds.go"]
    subprocess.run(["env", f"CGO_LDFLAGS={library}", *go], check=True)
    for name, libraries in _ALLOCATORS.items():
        # The compiler must not take out what is of no use.
        compiled(_HERE / "allocates.c", place / name, "-O1", "-fno-builtin", "-Wl,--no-as-needed", *libraries)
    data = {name: place / f"{name}.data" for name in ("in-rust", "in-go")}
    programs = [[place / name, where] for name, where in data.items()] + [[place / name] for name in _ALLOCATORS]
    with contextlib.ExitStack() as around:
        pids = [around.enter_context(service(program)).pid for program in programs]
        until(lambda: all(list(where.glob("*.sst")) for where in data.values()))  # they read what was flushed
        return attached(place / "runs", pids, "--seconds=12", "--freq=499", "--collect=perf").run


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


def test_callers_in_rust_and_in_stripped_go_have_names_and_the_engine_its_rows(run: Run) -> None:
    found = stacks_by_program(run, "owner")
    callers = {"in-rust": ("embeds::answer", "look_up"), "in-go": ("main.answer", "main.(*database).lookUp")}
    for name, (caller, called) in callers.items():
        shares = shares_of(found[name])
        assert min(shares[row] for row in ("IBI:Sk", "DBI:Sk", "LRU", "application")) > 0, (name, shares)
        gets = [stack for stack in found[name] if any("rocksdb::DBImpl::Get" in frame for frame in stack.frames)]
        whole = [s for s in gets if any(caller in f for f in s.frames) and any(called in f for f in s.frames)]
        assert sum(s.weight for s in whole) > 0.95 * sum(s.weight for s in gets) > 0, (name, gets[:3])


def test_memory_is_an_allocators_whichever_a_program_has(run: Run) -> None:
    found = stacks_by_program(run, "leaf")
    for name in _ALLOCATORS:
        shares = shares_of(found[name])
        # What is left is the program's own loop, and pages that are touched for the first time.
        assert shares["allocator"] > 60 and shares["other"] + shares["libc"] < 5, (name, shares)
