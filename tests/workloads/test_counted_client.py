"""The client's counted mode: phases under callgrind, which repeat to the instruction."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.folding.recordings import run, stacks
from tests.programs import installed_library
from tests.workloads.jars import host_library
from tests.workloads.test_our_client import argv_of, client
from workloads.our_client import closing_line

PHASES, READS = 3, 500
COUNTED = (f"--counted={PHASES}", f"--reads={READS}", "--use_existing_db=true")
VALGRIND = ("valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", "--combine-dumps=yes", "--separate-threads=yes",
            "--separate-callers=80", "--branch-sim=yes", "--collect-bus=yes")  # fmt: skip


def parts(path: Path) -> dict[str, list[int]]:
    """Events of each part of the main thread, by the name that the client gave it; "" for the one at the end."""
    found: dict[str, list[int]] = {}
    for part in path.read_text(encoding="utf-8", errors="replace").split("\npart: ")[1:]:
        if "\nthread: 1\n" in f"\n{part}":
            named = re.search(r"^desc: Trigger: Client Request: (.*)$", part, re.MULTILINE)
            totals = re.search(r"^totals: (.*)$", part, re.MULTILINE)
            found[named[1] if named else ""] = [int(word) for word in totals[1].split()] if totals else []
    return found


def counted(engine: str, database: Path, out: Path, *more: str) -> dict[str, list[int]]:
    jemalloc = installed_library("libjemalloc.so")
    # Time decides nothing: neither when jemalloc gives memory back nor, by its size, how a copy is made.
    environment = {
        "LD_PRELOAD": str(jemalloc),
        "MALLOC_CONF": "dirty_decay_ms:-1,muzzy_decay_ms:-1",
        "GLIBC_TUNABLES": "glibc.cpu.x86_rep_movsb_threshold=1000000000:glibc.cpu.x86_rep_stosb_threshold=1000000000",
        "PATH": "/usr/bin:/bin",
    }
    argv = [*VALGRIND, f"--callgrind-out-file={out}", *argv_of(engine, database, "readrandom", *COUNTED, *more)]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f'"phases":{PHASES},"operations":{READS},"found":{(PHASES + 1) * READS},"counted":true' in done.stdout
    return parts(out)


@pytest.mark.long
@pytest.mark.needs("valgrind", "allocators")
@pytest.mark.parametrize("engine", ["rocksdb", "leveldb", "lmdb"])
def test_phases_repeat_and_hold_the_operations_alone(engine: str, tmp_path: Path) -> None:
    database = tmp_path / "db"
    one_file = ("--write_buffer_size=8388608",) if engine != "lmdb" else ()
    assert client(engine, database, "fillseq", "--order=shuffled", *one_file).code == 0
    # The first reopening turns the log into a file of the tree; later ones change nothing.
    settles = "readrandom" if engine == "lmdb" else "readrandom,waitforcompaction"
    opened = client(engine, database, settles, "--use_existing_db=true", "--reads=1")
    assert opened.code == 0, opened.errors
    # On copies: what an opening leaves behind is not there for the next.
    copies = [Path(shutil.copytree(database, tmp_path / f"db{turn}")) for turn in (1, 2)]
    # A library of our own: valgrind ends at a probe that another test has set in the host's.
    own = [f"--library={shutil.copy(host_library(), tmp_path)}"] if engine == "rocksdb" else []
    first, second = (counted(engine, copy, tmp_path / f"out{turn}", *own) for turn, copy in enumerate(copies, 1))
    names = [f"readrandom phase {number}" for number in range(1, PHASES + 1)]
    assert [name for name in first if name] == names
    for name in names:
        assert first[name][0] == pytest.approx(second[name][0], rel=1e-4), (first, second)
        # A Get is some thousand instructions in any engine.
        assert 500 * READS < first[name][0] < 100_000 * READS
    whole = stacks(run("-q", tmp_path / "out1").stdout)
    # What is counted is below the client's one operation, but for the loop around it.
    below = sum(weight for stack, weight in whole.items() if b"worker::Operations::call;" in stack)
    assert 0.85 <= below / sum(first[name][0] for name in names) <= 1


def test_without_valgrind_it_says_that_nothing_was_counted() -> None:
    done = client("nothing", Path("none"), "readrandom", f"--counted={PHASES}", f"--reads={READS}")
    assert done.code == 0, done.errors
    assert '"counted":false' in done.out


@pytest.mark.long
@pytest.mark.needs("perf")
def test_the_processor_counts_each_phase_as_perf_does(tmp_path: Path) -> None:
    """By an event that every host has; instructions take the same way."""
    event, out = "page-faults:u", tmp_path / "stat"
    argv = argv_of("rocksdb", tmp_path / "db", "fillrandom", f"--counted={PHASES}", f"--counted_events={event}")
    # Of the main thread alone: a memtable's memory is new to it.
    perf = ["perf", "stat", "-x,", "--no-inherit", "-e", event, "-o", str(out), *argv]
    done = subprocess.run(perf, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    closing = closing_line(done.stdout, "fillrandom")
    assert closing is not None and closing["counted"] and closing["phases"] == PHASES
    phases = closing["events"][event]
    all_of_it = int(next(line for line in out.read_text().splitlines() if event in line).partition(",")[0])
    assert len(phases) == PHASES and 0 < sum(phases) < all_of_it


@pytest.mark.long
def test_a_command_is_counted_with_the_threads_that_do_it(tmp_path: Path) -> None:
    flags = ("--counted=1", "--counted_events=page-faults")
    done = client("rocksdb", tmp_path / "db", "fillrandom,compactall", *flags)
    assert done.code == 0, done.errors
    closing = closing_line(done.out, "compactall")
    assert closing is not None and (closing["phases"], closing["operations"]) == (1, 1)
    assert closing["events"]["page-faults"][0] > 0


@pytest.mark.long
@pytest.mark.needs("perf")
def test_instructions_are_counted_where_perf_counts_them_and_else_it_says_why() -> None:
    perf = subprocess.run(["perf", "stat", "-x,", "-e", "instructions:u", "true"], capture_output=True, check=True)
    flags = ("--reads=1000", "--counted=2", "--counted_events=instructions:u")
    done = client("nothing", Path("none"), "readrandom", *flags)
    if b"<not supported>" in perf.stderr:
        assert done.code == 3 and "instructions:u cannot be counted here" in done.errors
    else:
        closing = closing_line(done.out, "readrandom")
        assert closing is not None and all(count > 10_000 for count in closing["events"]["instructions:u"])
