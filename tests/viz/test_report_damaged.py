"""A run from somebody else whose files are cut, emptied, garbled, huge or pipes: a page that says so, or an error."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from folding.stackfold import run_stackfold
from ground.errors import MeasurementError
from ground.results.files import Files
from ground.results.run import Run
from ground.system.atomic_files import write_json
from ioflame.cli import main
from ioflame.instruments import INSTRUMENTS
from tests.viz import observers
from tests.viz.runs import REPORT, record, saved, series

# Text of perf script, two threads off their CPUs.
OFF = """\
db_bench 42/{tid} [000] 1.000000: 1000000 off-cpu:
\tffffffff81000002 [{state}] ([kernel.kallsyms])
\tffffffff81000001 do_futex ([kernel.kallsyms])
\t401000 start_thread (/bin/x)

"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with every file that its page is made from."""
    run = saved(tmp_path_factory.mktemp("runs"))
    run.save_windows(run.record.windows, series())
    for name, value in observers.observed().results.items():
        write_json(run.path(name), value)
    run.path(Files.PMP_FOLDED).write_text("db_bench;start_thread;pread;uninterruptible_[D] 7\n")
    run.path(Files.PMP_COUNTS).write_text("db_bench;start_thread;pread;uninterruptible_[D] 1\n")
    run.path(Files.OFF_CPU_DATA).write_bytes(b"folded since")
    text = OFF.format(tid=43, state="io") + OFF.format(tid=44, state="lock")
    argv = ["--kernel", "--states", "[io],[lock]", "-"]
    run_stackfold(argv, run.path(Files.OFF_CPU_PROFILE), "rocksdb", ["owner"], text.encode()).require("stackfold")
    return run.directory


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Run:
    directory = tmp_path / "run"
    shutil.copytree(whole, directory)
    return Run(directory, record())


def page_of(run: Run, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit code, and the page or the error."""
    code = main(["report", str(run.directory)])
    told = capsys.readouterr().err
    return code, told if code else run.path(Files.REPORT).read_text(encoding="utf-8")


def test_the_whole_run_is_shown(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    code, page = page_of(run, capsys)
    assert code == 0 and "is not shown" not in page and "No stacks can be shown" not in page
    assert "do_futex" in page and "Locks" in page


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garble(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[:: max(len(data) // 40, 1)] = b"\xa5" * len(data[:: max(len(data) // 40, 1)])
    path.write_bytes(data)


def words(path: Path) -> None:
    path.write_bytes(b"no such thing\n" * 9)


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGES: tuple[Callable[[Path], None], ...] = (cut, halve, empty, garble, words, huge, pipe)
# What a page can lack without a word: an empty report has no seconds, and one cut short those it lost; stacks without a
# count have no number of samples.
QUIET = {(REPORT, damage.__name__) for damage in (cut, halve, empty)}
QUIET |= {(Files.SAMPLE_COUNTS, damage.__name__) for damage in (empty, words)}
# Read for themselves; only where the file that they go with can be read; instead of folded stacks.
FILES = (
    Files.SERIES, REPORT, Files.FOLDED, Files.LADDER, Files.IO_LATENCY, Files.OFF_CPU, Files.RUN_QUEUE,
    Files.WALL_CLOCK, Files.LOCKS, Files.PMP, Files.PMP_FOLDED,
)  # fmt: skip
BESIDE = (Files.SAMPLE_COUNTS, Files.OFF_CPU_PROFILE)
# Only runs of ioflame 0.1.0 lack these.
INSTEAD = {Files.PROFILE: Files.FOLDED, Files.PMP_PROFILE: Files.PMP_FOLDED}


@pytest.mark.parametrize("turn", range(len(DAMAGES)))
@pytest.mark.parametrize("names", [FILES, BESIDE, tuple(INSTEAD)], ids=["files", "beside", "instead"])
def test_damaged_files_are_said_and_end_nothing(
    run: Run, names: Sequence[str], turn: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every file is damaged in one way, another one in each turn."""
    ways = {name: DAMAGES[(place + turn) % len(DAMAGES)] for place, name in enumerate(names)}
    for name, damage in ways.items():
        if name in INSTEAD:
            run_stackfold(["--kernel", str(run.path(INSTEAD[name]))], run.path(name), "rocksdb").require("stackfold")
        damage(run.path(name))
    code, told = page_of(run, capsys)
    assert code == 0, told
    unsaid = {(name, damage.__name__) for name, damage in ways.items() if name not in told}
    assert unsaid <= QUIET


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_is_an_error(
    run: Run, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    damage(run.path(Files.RECORD))
    code, told = page_of(run, capsys)
    assert code == 1 and told.startswith("ioflame: ") and Files.RECORD in told


def numbers(value: Any, path: tuple[Any, ...] = (), items: int = 1) -> list[tuple[Any, ...]]:
    """The paths of the numbers in a JSON value; in a list only the first items."""
    if isinstance(value, dict):
        return [found for key, item in value.items() for found in numbers(item, (*path, key), items)]
    if isinstance(value, list):
        return [found for place, item in enumerate(value[:items]) for found in numbers(item, (*path, place), items)]
    return [path] if isinstance(value, int | float) and not isinstance(value, bool) else []


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)], ids=["some", "every"])
@pytest.mark.parametrize("name", [Files.IO_LATENCY, Files.LADDER, Files.RUN_QUEUE, Files.SERIES, Files.RECORD])
def test_figures_that_cannot_be_are_a_line_in_their_place(
    run: Run, name: str, every: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each number is 0, below 0, or too large. every: all three in turn, and in the first two items of a list"""
    kept = run.path(name).read_bytes()
    # Only this file: what is tried is how its figures are drawn, hundreds of times.
    for other in (*FILES, *BESIDE):
        if other != name:
            run.path(other).unlink(missing_ok=True)
    figures = (0, -1, 2**63)
    said = 0
    for place, path in enumerate(numbers(json.loads(kept), items=2 if every else 1)):
        for figure in figures if every else [figures[place % 3]]:
            value = json.loads(kept)
            inner = value
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = figure
            run.path(name).write_bytes(msgspec.json.encode(value))
            code, told = page_of(run, capsys)
            assert code == 0 or (name == Files.RECORD and "run.json" in told), (path, figure, told[:300])
            said += "This part is not shown" in told or "Expected `int` " in told
    assert said or name not in (Files.IO_LATENCY, Files.LADDER), "no figure was one that cannot be"


def test_a_name_that_nobody_knows_is_a_line(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    ladder = json.loads(run.path(Files.LADDER).read_bytes())
    ladder["stages"][0]["name"] = "of a later version"
    run.path(Files.LADDER).write_bytes(msgspec.json.encode(ladder))
    code, page = page_of(run, capsys)
    assert code == 0 and "This part is not shown" in page and "of a later version" in page


def test_a_result_that_ends_before_it_begins_is_not_read(tmp_path: Path) -> None:
    """QPS of a window whose edges were swapped came out twice as large."""
    readers = {name: reader for one in INSTRUMENTS.values() for name, reader in one.reads.items()}
    tried = 0
    for name, value in observers.observed().results.items():
        found = json.loads(msgspec.json.encode(value))
        if name in readers and isinstance(found, dict) and "end_ns" in found:
            write_json(tmp_path / name, found)
            readers[name](tmp_path / name)
            write_json(tmp_path / name, {**found, "start_ns": found["end_ns"] + 1})
            with pytest.raises(MeasurementError, match=r"it ends .* ns before it begins"):
                readers[name](tmp_path / name)
            tried += 1
    assert tried > 6
