"""What is broken, half written or left in a store is named and left out; who writes beside others loses nothing."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb
import pytest

from ground.results.run import Run
from ground.results.store.database import Store
from ground.results.store.parquet_files import writing
from ioflame import cli
from ioflame.store.add import add_to_store
from tests.ioflame.store.stored import small_run, stored, weights
from tests.places import ROOT


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4:40] = bytes(36)
    path.write_bytes(data)


def _foreign(path: Path) -> None:
    duckdb.connect().execute(f"COPY (SELECT 1 AS weight) TO '{path}' (FORMAT parquet)")


# What makes a file of samples or of runs unreadable, by the reason that is told.
DAMAGE: tuple[tuple[str, str, Callable[[Path], object]], ...] = (
    ("samples", "cut short", lambda path: path.write_bytes(path.read_bytes()[:-20])),
    ("samples", "it is cut short", lambda path: path.write_bytes(b"")),
    ("samples", "no Parquet file", lambda path: path.write_text("notes about this run")),
    ("samples", "another program wrote it", _foreign),
    ("samples", "schema 2, of a newer ioflame",
     lambda path: path.write_bytes(path.read_bytes().replace(b"v1:samples;", b"v2:samples;"))),
    ("samples", "it holds runs and lies among samples",
     lambda path: shutil.copy(next(path.parents[2].glob(f"runs/*/{path.name}")), path)),
    ("samples", "it is damaged", _flip),
    ("runs", "it is damaged", _flip),
)  # fmt: skip


def test_files_that_are_not_whole_are_named_and_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = stored(tmp_path / "store", *range(100, 101 + len(DAMAGE)))
    names = sorted(weights(store))
    broken = {}
    for name, (table, why, damage) in zip(names, DAMAGE, strict=False):
        (path,) = store.directory.glob(f"v1/{table}/*/{name}.parquet")
        damage(path)
        broken[path] = why
    again = Store(store.directory)
    assert weights(again) == {names[-1]: (100 + len(DAMAGE), 1)}
    assert {one.path for one in again.skipped} == broken.keys()
    assert all(broken[one.path] in one.why for one in again.skipped)
    told = again.check()
    assert all(any(str(path) in line for line in told) for path in broken)
    # The commands print rows, and what they left out.
    assert cli.main(["store", "sql", str(store.directory), "SELECT count(*) AS n FROM samples"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "n\n1\n" and all(f"skipped {path}: " in printed.err for path in broken)
    assert cli.main(["store", "check", str(store.directory)]) == 1
    out = capsys.readouterr().out
    assert all(str(path) in out for path in broken)


@pytest.mark.long
def test_writers_beside_each_other_and_their_sums(runs: list[Run], tmp_path: Path) -> None:
    place = tmp_path / "store"
    argv = [sys.executable, "-m", "ioflame.cli", "store", "add", str(place)]
    # Two of them add the same runs, in other orders.
    orders: list[Sequence[Run]] = [runs, runs[::-1]]
    writers = [subprocess.Popen([*argv, *(str(run.directory) for run in order)]) for order in orders]
    assert [writer.wait(120) for writer in writers] == [0, 0]
    store = Store(place)
    assert sorted(weights(store).values()) == sorted((p.weight, p.samples) for r in runs if (p := r.record.profile))
    assert store.check() == []


# Where a writer is killed: before the file that makes a run of the others, before a merge's first file has its name,
# and before the first that it replaced is gone.
KILLED = """
import os, signal, sys
from pathlib import Path
from ground.results.store import database
from tests.ioflame.store.stored import small_run
die, replace, unlink = lambda *_: os.kill(os.getpid(), signal.SIGKILL), Path.replace, Path.unlink
store, point = database.Store(Path(sys.argv[1])), sys.argv[2]
if point == "add":
    Path.replace = lambda path, to: die() if to.parents[1].name == "runs" else replace(path, to)
    small_run(store, 4)
elif point == "before":
    database.put_in_place = die
else:
    Path.unlink = lambda path, missing_ok=False: die() if path.suffix == ".parquet" else unlink(path, missing_ok)
store.compact()
"""


@pytest.mark.long
@pytest.mark.parametrize("point", ["add", "before", "after"])
def test_what_a_killed_writer_leaves_is_named_and_taken_away_by_the_next(tmp_path: Path, point: str) -> None:
    store = stored(tmp_path / "store", 1, 2, 3)
    before, tables = weights(store), store.directory / "v1"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(store.directory), point], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    again = Store(store.directory)
    told = again.check()
    left = {line.rpartition(": ")[2] for line in told if "writer that was killed" in line}
    if point == "add":
        assert told and all("never added whole" in line or "was killed" in line for line in told)
    else:
        (listed,) = tables.rglob("*.replaces.json")
        merged = {str(path) for path in listed.parent.glob("*.parquet") if not path.stem.startswith("merged-")}
        assert left == (merged if point == "after" else {str(one) for one in (listed, *tables.rglob("*.part"))})
        # One that writes now has not been killed.
        with writing(tables):
            assert again.check() == []
    assert weights(again) == before
    if point == "add":
        before[small_run(again, 4)] = (4, 1)
    again.compact()
    assert weights(again) == before and again.check() == []
    assert not list(tables.rglob("*.part"))
    again.compact()
    assert weights(Store(store.directory)) == before


@pytest.mark.long
def test_what_is_copied_again_after_merges_counts_once(tmp_path: Path) -> None:
    """A host's store is copied into one of many, every night, and merged there."""
    store, central = (stored(tmp_path / name, 1, 2) for name in ("store", "central"))
    expected = weights(store)
    for night in (3, 4):
        central.compact()
        expected[small_run(central, night)] = (night, 1)
        shutil.copytree(store.directory, central.directory, dirs_exist_ok=True)
        central = Store(central.directory)
        assert weights(central) == expected
    central.compact()
    assert weights(central) == expected and central.check() == []


@pytest.mark.long
def test_stores_that_were_both_merged_count_what_they_share_once(tmp_path: Path) -> None:
    """What merges wrote is copied both ways."""
    one, other = stored(tmp_path / "one", 1, 2, 3), stored(tmp_path / "other", 2, 3, 4)
    one.compact()
    other.compact()
    expected = weights(one) | weights(other)
    shutil.copytree(one.directory, other.directory, dirs_exist_ok=True)
    shutil.copytree(other.directory, one.directory, dirs_exist_ok=True)
    for directory in (one.directory, other.directory):
        again = Store(directory)
        assert weights(again) == expected and again.check() == []
        again.compact()
        assert weights(again) == expected and again.check() == []
    # They merged the same to the same name, in which the same lies.
    shutil.copytree(one.directory, other.directory, dirs_exist_ok=True)
    assert weights(Store(other.directory)) == expected and Store(other.directory).check() == []


def test_what_counts_twice_is_named(tmp_path: Path) -> None:
    """A run in the files of two days, which no merge of ours makes; and a merged file without its list."""
    store = stored(tmp_path / "store", 1, 2)
    whole = sorted(store.directory.glob("v1/samples/*/*.parquet"))[0]
    twice = whole.parents[1] / "day=2020-01-01" / "another.parquet"
    twice.parent.mkdir()
    shutil.copy(whole, twice)
    assert Store(store.directory).check() == [f"samples of {whole.stem} is in several files: rm it, and add it again"]
    twice.unlink()
    store.compact()
    next(whole.parent.glob("*.replaces.json")).unlink()
    again = Store(store.directory)
    assert weights(again) == {} and "copied in part" in again.skipped[0].why


TABLE = "test\tversion\tops_sec\n" + "".join(f"readrandom.t4\t{version}\t1000\n" for version in ("10.5.1", "10.6.2"))


def _counts(store: Store) -> list[tuple[object, ...]]:
    return store.query("SELECT label, count(*) FROM runs JOIN figures USING (run) GROUP BY label ORDER BY label").rows


@pytest.mark.long
@pytest.mark.parametrize("merged", [False, True])
def test_a_row_of_a_table_that_was_removed_stays_removed(tmp_path: Path, merged: bool) -> None:
    """The nightly copy brings the table back whole; another host's store lacks another row of it."""
    (tmp_path / "report.tsv").write_text(TABLE)
    store, nightly = Store(tmp_path / "s", create=True), tmp_path / "nightly"
    add_to_store(store, tmp_path / "report.tsv")
    (tmp_path / "more.tsv").write_text(TABLE.replace("readrandom", "fillseq").replace("10.5.1", "9.9.3"))
    add_to_store(store, tmp_path / "more.tsv")
    shutil.copytree(store.directory, nightly)
    if merged:
        store.compact()
    rows = store.query("SELECT run FROM runs WHERE workload = 'readrandom' ORDER BY run").rows
    other = Store(shutil.copytree(store.directory, tmp_path / "other"))
    other.remove(rows[1])
    store.remove(rows[0])
    for _ in range(2):
        assert _counts(store) == [("10.6.2", 2), ("9.9.3", 1)]
        shutil.copytree(nightly, store.directory, dirs_exist_ok=True)
        store = Store(store.directory)
    # What lacks other rows has another name: a copy puts neither in the place of the other.
    lacking = [{path.name for path in made.directory.glob("v1/figures/*/*.parquet")} for made in (store, other)]
    assert lacking[1] - lacking[0]
    store.compact()
    assert _counts(store) == [("10.6.2", 2), ("9.9.3", 1)] and store.check() == []


@pytest.mark.long
def test_a_merged_table_is_removed_whole_and_may_be_added_again(tmp_path: Path) -> None:
    (tmp_path / "report.tsv").write_text(TABLE)
    store = Store(tmp_path / "s", create=True)
    (name,) = add_to_store(store, tmp_path / "report.tsv").new
    (tmp_path / "more.tsv").write_text(TABLE.replace("10.5.1", "9.9.3"))
    add_to_store(store, tmp_path / "more.tsv")
    store.compact()
    store.remove([name])
    assert _counts(store) == [("10.6.2", 1), ("9.9.3", 1)]
    add_to_store(store, tmp_path / "report.tsv")
    assert _counts(store) == [("10.5.1", 1), ("10.6.2", 2), ("9.9.3", 1)] and store.check() == []
    # Row by row, of which the last one has no figure.
    (tmp_path / "half.tsv").write_text(TABLE.replace("10.6.2\t1000", "10.6.2\tNA"))
    half = Store(tmp_path / "half", create=True)
    for _ in range(2):
        (name,) = add_to_store(half, tmp_path / "half.tsv").new
        assert _counts(half) == [("10.5.1", 1)]
        for row in half.query("SELECT run FROM runs ORDER BY run").rows:
            half.remove(row)


@pytest.mark.long
@pytest.mark.needs("unshare")
def test_a_full_disk_leaves_what_was_there(runs: list[Run], tmp_path: Path) -> None:
    """A tmpfs of our own: the second run does not fit."""
    python, (first, second) = sys.executable, (str(run.directory) for run in runs[:2])
    script = f"""set -e
        mount -t tmpfs -o size=128k none {tmp_path}
        {python} -m ioflame.cli store add {tmp_path}/s {first}
        head -c 1000000 /dev/zero > {tmp_path}/filling 2>/dev/null || truncate -s -40K {tmp_path}/filling
        {python} -m ioflame.cli store add {tmp_path}/s {second} || echo "ended with $?"
        rm {tmp_path}/filling
        {python} -m ioflame.cli store check {tmp_path}/s && {python} -m ioflame.cli store ls {tmp_path}/s"""
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, check=False)
    assert "ended with 3" in done.stdout and "No space left on device" in done.stderr, done.stderr + done.stdout
    assert "holds together" in done.stdout
    assert done.stdout.count("readrandom iodir t1") == 0 and done.stdout.count("\treadrandom") == 1
