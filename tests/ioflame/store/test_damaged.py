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
from ioflame.store.add import add_to_store
from tests.ioflame.store.stored import command, made_run, weights

pytestmark = pytest.mark.slow


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4:40] = bytes(36)
    path.write_bytes(data)


def _foreign(path: Path) -> None:
    duckdb.connect().execute(f"COPY (SELECT 1 AS weight) TO '{path}' (FORMAT parquet)")


def _newer(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"v1:samples;", b"v2:samples;"))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "it is cut short": lambda path: path.write_bytes(b""),
    "no Parquet file": lambda path: path.write_text("notes about this run"),
    "another program wrote it": _foreign,
    "schema 2, of a newer ioflame": _newer,
    "it holds windows and lies among samples": lambda path: shutil.copy(
        next(path.parents[2].glob(f"windows/*/{path.name}")), path
    ),
    "it is damaged": _flip,
}


@pytest.mark.parametrize("why", DAMAGE)
def test_a_file_that_is_not_whole_is_named_and_left_out(store: Store, why: str) -> None:
    before = weights(store)
    broken = sorted(store.directory.glob("v1/samples/*/*.parquet"))[0]
    DAMAGE[why](broken)
    again = Store(store.directory)
    assert weights(again) == {run: sums for run, sums in before.items() if run != broken.stem}
    assert [one.path for one in again.skipped] == [broken] and why in again.skipped[0].why
    assert any(str(broken) in line for line in again.check())


def test_a_run_whose_own_row_is_damaged_is_left_out(store: Store) -> None:
    before = weights(store)
    broken = sorted(store.directory.glob("v1/runs/*/*.parquet"))[0]
    _flip(broken)
    again = Store(store.directory)
    assert weights(again) == {run: sums for run, sums in before.items() if run != broken.stem}
    assert [one.path for one in again.skipped] == [broken]


def test_the_command_prints_rows_and_what_it_left_out(store: Store) -> None:
    broken = sorted(store.directory.glob("v1/samples/*/*.parquet"))[0]
    broken.write_bytes(b"")
    done = command("sql", store.directory, "SELECT count(*) AS n FROM runs")
    assert (done.returncode, done.stdout) == (0, "n\n4\n")
    assert f"skipped {broken}: it is cut short" in done.stderr
    done = command("check", store.directory)
    assert done.returncode == 1 and str(broken) in done.stdout


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


def test_killed_in_the_middle_of_an_add(runs: list[Run], tmp_path: Path) -> None:
    store = Store(tmp_path / "store", create=True)
    add_to_store(store, runs[0].directory)
    before = weights(store)
    argv = [sys.executable, "-m", "ioflame.cli", "store", "add", str(store.directory), str(runs[1].directory)]
    writer = subprocess.Popen(argv)
    tables = store.directory / "v1"
    # The first file of the second run is there: runs, which makes it one, is written last.
    while len(list(tables.glob("*/*/*"))) <= len(list(tables.glob(f"*/*/{next(iter(before))}.*"))):
        assert writer.poll() is None
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    after = Store(store.directory)
    assert weights(after) == before
    told = after.check()
    assert told and all("never added whole" in line or "was killed" in line for line in told)
    add_to_store(after, runs[1].directory)
    assert len(weights(after)) == 2
    after.compact()
    assert len(weights(after)) == 2 and Store(store.directory).check() == []


# Where a merge is killed: before its first file has its name, and before the first that it replaced is gone.
KILLED = """
import os, signal, sys
from pathlib import Path
from ground.results.store import database
die, unlink = lambda *_: os.kill(os.getpid(), signal.SIGKILL), Path.unlink
if sys.argv[2] == "before":
    database.put_in_place = die
else:
    Path.unlink = lambda path, missing_ok=False: die() if path.suffix == ".parquet" else unlink(path, missing_ok)
database.Store(Path(sys.argv[1])).compact()
"""


@pytest.mark.parametrize("point", ["before", "after"])
def test_what_a_killed_merge_leaves_is_named_and_taken_away_by_the_next(store: Store, point: str) -> None:
    before, tables = weights(store), store.directory / "v1"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(store.directory), point], check=False)
    assert killed.returncode == -signal.SIGKILL
    again = Store(store.directory)
    left = {line.rpartition(": ")[2] for line in again.check() if "writer that was killed" in line}
    (listed,) = tables.rglob("*.replaces.json")
    if point == "before":
        assert left == {str(path) for path in (listed, *tables.rglob("*.part"))} and len(left) == 2
    else:
        assert left == {str(path) for path in listed.parent.glob("*.parquet") if not path.stem.startswith("merged-")}
    assert weights(again) == before
    # One that writes now has not been killed.
    with writing(tables):
        assert again.check() == []
    again.compact()
    assert weights(again) == before and again.check() == []
    assert not list(tables.rglob("*.part"))
    again.compact()
    assert weights(Store(store.directory)) == before


def test_what_is_copied_again_after_merges_counts_once(store: Store, tmp_path: Path) -> None:
    """A host's store is copied into one of many, every night, and merged there."""
    central = Store(shutil.copytree(store.directory, tmp_path / "central"))
    expected = weights(store)
    for night in range(3):
        central.compact()
        (name,) = add_to_store(central, made_run(tmp_path / "more", 200 + night).directory).new
        expected[name] = weights(central)[name]
        shutil.copytree(store.directory, central.directory, dirs_exist_ok=True)
        again = Store(central.directory)
        assert weights(again) == expected
    again.compact()
    assert weights(again) == expected and again.check() == []


def test_stores_that_were_both_merged_count_what_they_share_once(runs: list[Run], tmp_path: Path) -> None:
    """Runs 0 to 2 in one, 1 to 3 in the other: what merges wrote is copied both ways."""
    one, other = (Store(tmp_path / name, create=True) for name in ("one", "other"))
    for store, some in ((one, runs[:3]), (other, runs[1:])):
        for run in some:
            add_to_store(store, run.directory)
        store.compact()
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


def test_what_counts_twice_is_named(store: Store) -> None:
    """A run in the files of two days, which no merge of ours makes; and a merged file without its list."""
    before = weights(store)
    whole = sorted(store.directory.glob("v1/samples/*/*.parquet"))[0]
    (whole.parents[1] / "day=2020-01-01").mkdir()
    shutil.copy(whole, whole.parents[1] / "day=2020-01-01" / "another.parquet")
    assert Store(store.directory).check() == [f"samples of {whole.stem} is in several files: rm it, and add it again"]
    (whole.parents[1] / "day=2020-01-01" / "another.parquet").unlink()
    store.compact()
    next(whole.parent.glob("*.replaces.json")).unlink()
    again = Store(store.directory)
    assert weights(again) == {} and "copied in part" in again.skipped[0].why and before


TABLE = "test\tversion\tops_sec\n" + "".join(f"readrandom.t4\t{version}\t1000\n" for version in ("10.5.1", "10.6.2"))


def _counts(store: Store) -> list[tuple[object, ...]]:
    return store.query("SELECT label, count(*) FROM runs JOIN figures USING (run) GROUP BY label ORDER BY label").rows


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
