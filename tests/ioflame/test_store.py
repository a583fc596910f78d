"""The store: what is added can be had again to the unit; what is broken or half written is named and left."""

from __future__ import annotations

import hashlib
import itertools
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb
import pytest

from folding.foreign import read_pprof
from ioflame import cli
from ioflame.errors import HostError, UsageError
from ioflame.profile.compare.judge import verdicts_of
from ioflame.profile.report import write_page_of
from ioflame.profile.store.add import add_to_store
from ioflame.profile.store.export import export_run
from ioflame.profile.store.history import read_history
from ioflame.results.comparison import ComparisonRun
from ioflame.results.profile import read_profile
from ioflame.results.record import ProfileFacts
from ioflame.results.run import Run, open_run
from ioflame.results.store.database import RunTables, Store
from ioflame.results.store.parquet_files import writing
from ioflame.system.atomic_files import write_json
from tests.viz import compared
from tests.viz.compared import RATES, fold
from tests.viz.runs import record, series

FIGURES = (
    "FROM relative_qps",
    "FROM us_per_query",
    "FROM noise",
    "FROM latest",
    "FROM frames_by_difference('7.8.3', '9.0.1')",
    "FROM stacks_through('9.0.1', 'eng::Cache::Lookup')",
)


def made_run(out: Path, pid: int, version: str = "7.8.3", slower: int = 0) -> Run:
    """A run with a profile of stackfold's. slower: samples a second more in one function"""
    run = Run.create(out, record(pid=pid, tools={"engine": version, "engine_artifact": f"a{version}"}))
    seconds = series()
    for one in seconds:
        one.counters.storage_read_ms = round(one.counters.storage_read_ms)
    run.save_series(seconds)
    cache = "main;eng::Db::Get;eng::Cache::Lookup"
    fold({**RATES, cache: RATES[cache] + slower}, random.Random(pid), run.path("profile.json"))
    found = read_profile(run.path("profile.json")).statistics
    run.record.profile = ProfileFacts(
        "cpu-clock", "ns", 99, "system", "fp", [], found.samples, found.weight, found.weight
    )
    run.save()
    return run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    out = tmp_path_factory.mktemp("runs")
    versions = ("7.8.3", "7.8.3", "9.0.1", "9.0.1")
    return [made_run(out, 100 + i, version, 30 * (version == "9.0.1")) for i, version in enumerate(versions)]


@pytest.fixture(scope="module")
def kept(runs: list[Run], tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("kept") / "store"
    made = Store(directory, create=True)
    for run in runs:
        add_to_store(made, run.directory)
    return directory


@pytest.fixture
def store(kept: Path, tmp_path: Path) -> Store:
    """A copy of the store of all runs."""
    return Store(shutil.copytree(kept, tmp_path / "store"))


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "ioflame.cli", "store", *map(str, arguments)]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)


def weights(store: Store) -> dict[str, tuple[int, int]]:
    sql = "SELECT run, sum(weight)::BIGINT, sum(samples)::BIGINT FROM samples GROUP BY run"
    return {run: (weight, samples) for run, weight, samples in store.query(sql).rows}


def test_totals_are_those_of_run_json_to_the_unit(runs: list[Run], store: Store) -> None:
    profiles = [run.record.profile for run in runs]
    assert sorted(weights(store).values()) == sorted((p.weight, p.samples) for p in profiles if p)
    per_view = store.query('SELECT "view", sum(weight)::BIGINT FROM categories GROUP BY run, "view"').rows
    whole = Counter(p.weight for p in profiles if p)
    for view in ("owner", "leaf"):
        assert Counter(weight for name, weight in per_view if name == view) == whole
    queries = store.query("SELECT sum(queries) FROM windows").rows[0][0]
    assert queries == sum(window.counters.queries or 0 for run in runs for window in run.record.windows)
    seconds = store.query("SELECT sum(cpu_ns)::BIGINT, count(*) FROM seconds").rows
    assert seconds == [(sum(one.counters.cpu_ns for run in runs for one in run.series()), 22 * len(runs))]
    assert store.check() == []


def test_a_run_that_is_added_again_changes_nothing(runs: list[Run], store: Store) -> None:
    before = sorted(path for path in store.directory.rglob("*"))
    assert add_to_store(store, runs[0].directory).new == []
    assert sorted(path for path in store.directory.rglob("*")) == before


def test_every_table_can_be_made_without_the_run_directory(runs: list[Run], tmp_path: Path) -> None:
    copies = [tmp_path / run.directory.name for run in runs]
    store = Store(tmp_path / "store", create=True)
    for run, copy in zip(runs, copies, strict=True):
        shutil.copytree(run.directory, copy)
        write_page_of([copy], copy / "report.html")
        (name,) = add_to_store(store, copy).new
        page = (copy / "report.html").read_bytes()
        shutil.rmtree(copy)
        export_run(store, name, copy)
        assert open_run(copy).record == run.record
        write_page_of([copy], copy / "report.html")
        assert (copy / "report.html").read_bytes() == page
    for view in FIGURES:
        assert store.query(view).rows, view


def test_the_views_are_hand_arithmetic(runs: list[Run], store: Store) -> None:
    ratios = {label: ratio for _, _, label, _, ratio, _ in store.query("FROM relative_qps").rows}
    assert ratios == {"7.8.3": 1.0, "9.0.1": pytest.approx(1.0)}
    found = {row["function"]: row for row in store.query("FROM frames_by_difference('7.8.3', '9.0.1')").as_dicts()}
    assert next(iter(found)) == "eng::Cache::Lookup"
    by_hand = {}
    for version in ("7.8.3", "9.0.1"):
        shares = []
        for run in (run for run in runs if run.record.tools["engine"] == version):
            folded = read_profile(run.path("profile.json"))
            own = sum(s.weight for s in folded.each_stack() if s.frames[-1] == "eng::Cache::Lookup")
            shares.append(own / folded.statistics.weight)
        by_hand[version] = 20.0 * sum(shares) / len(shares)
    row = found["eng::Cache::Lookup"]
    assert (row["own_base"], row["own_arm"]) == pytest.approx((by_hand["7.8.3"], by_hand["9.0.1"]))
    # All time is below main.
    assert (found["main"]["total_base"], found["main"]["own_base"]) == (pytest.approx(20.0), 0)
    through = store.query("FROM stacks_through('9.0.1', 'eng::Cache::Lookup')").as_dicts()
    assert [row["stack"] for row in through] == ["main;eng::Db::Get;eng::Cache::Lookup"]
    assert through[0]["us"] == pytest.approx(by_hand["9.0.1"])
    us = store.query("SELECT label, sum(us) FROM us_per_query WHERE \"view\" = 'owner' GROUP BY label").rows
    assert sorted(us) == [("7.8.3", pytest.approx(20.0)), ("9.0.1", pytest.approx(20.0))]


def _words(row: tuple[object, ...]) -> str:
    return repr([value for value in row if not isinstance(value, float)])


def test_merged_and_removed_runs_keep_the_sums_of_the_others(runs: list[Run], store: Store) -> None:
    before = weights(store)
    answers = [store.query(view).rows for view in FIGURES]
    assert store.compact() > 10
    assert weights(store) == before
    # Means and deviations are sums of floats, in an order that follows the files; so are ranks among equals.
    for view, rows in zip(FIGURES, answers, strict=True):
        for row, then in zip(sorted(store.query(view).rows, key=_words), sorted(rows, key=_words), strict=True):
            assert row == tuple(pytest.approx(value) if isinstance(value, float) else value for value in then), view
    gone, *kept = before
    store.remove([gone])
    assert weights(store) == {run: before[run] for run in kept}
    assert store.check() == []
    # Another reader sees the same, and it can be added once more.
    for run in runs:
        add_to_store(Store(store.directory), run.directory)
    again = Store(store.directory)
    assert weights(again) == before and again.check() == []
    with pytest.raises(UsageError, match="holds no run nobody"):
        store.remove(["nobody"])


def made_comparison(directory: Path) -> Path:
    """Six sessions of A, B and a twin of A, of which B takes 5 % longer; in the last block something was disturbed."""
    made = compared.record(1.05, host={"host_id": "h1", "boot_id": "b1"})
    made.sessions[-1].blocks[-1].dropped = "repeated: steal"
    start = itertools.count(10**9, 10**9)
    for session in made.sessions:
        for one in (one for block in session.blocks for one in block.windows):
            one.window.counters.storage_read_ms = round(one.window.counters.storage_read_ms)
            one.window.start_ns = next(start)
            one.window.end_ns = one.window.start_ns + 5 * 10**9
        for process in session.processes:
            own = [one.window for block in session.blocks for one in block.windows if one.arm == process.arm]
            process.pid = session.number
            (directory / process.directory).mkdir()
            whole = record(windows=own, pid=process.pid, host=made.host, metrics={}, profile=None)
            Run(directory / process.directory, whole).save()
    write_json(directory / "comparison.json", made)
    verdicts_of(ComparisonRun.open(directory))
    return directory


def test_a_merge_takes_no_more_memory_than_it_may(tmp_path: Path) -> None:
    """Of more bytes, which cannot be made smaller."""
    store, sums = Store(tmp_path / "store", create=True), {}
    for number in range(20):
        tables, dice = RunTables(f"run{number}", "2026-11-20"), random.Random(number)
        tables.add("runs", label="1.0")
        for file in range(15):
            data = dice.randbytes(1 << 20)
            tables.add("files", name=f"{file}.json", data=data)
            sums[tables.run, f"{file}.json"] = hashlib.sha256(data).hexdigest()
        store.add(tables)
    assert Store(store.directory, memory=300 << 20).compact() == 38
    assert {(run, name): of for run, name, of in store.query("SELECT run, name, sha256(data) FROM files").rows} == sums


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_comparison(tmp_path_factory.mktemp("comparison"))


def test_a_comparison_is_its_processes_with_their_blocks_and_its_verdicts(comparison: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "store", create=True)
    # Three arms in six sessions, and the comparison itself.
    assert len(add_to_store(store, comparison).new) == 19
    ratios = {row[2]: row[4] for row in store.query("FROM relative_qps").rows}
    assert ratios == {"A": 1.0, "B": pytest.approx(1 / 1.05, rel=0.005)}
    blocks = store.query(
        "SELECT count(DISTINCT (session, block)), sum(dropped <> '') FROM windows JOIN runs USING (run)"
    )
    assert blocks.rows == [(24, 6)]
    (noise,) = store.query("FROM noise").as_dicts()
    assert (noise["host"], noise["blocks"]) == ("h1", 23) and abs(noise["twin_mean"]) < 1
    verdicts = store.query("SELECT arm, verdict, round(ratio, 2) FROM results WHERE metric = 'qps' AND NOT twin").rows
    assert verdicts == [("B", "regressed", 0.95)]
    assert store.query("SELECT count(*) FROM results WHERE twin").rows[0][0] > 0
    # Sessions are the repeats, and rounds that both versions share.
    history = read_history(store)
    (series,) = (one for one in history.series if one.metric == "qps")
    assert series.labels == ["A", "B"] and series.fit.repeated and [one.runs for one in series.fit.versions] == [6, 6]
    assert [(one.at, one.candidate) for one in series.fit.features] == [(1, False)]
    assert store.check() == []


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
from ioflame.results.store import database
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


def test_our_own_stacks_leave_with_their_totals(store: Store, tmp_path: Path) -> None:
    name = sorted(weights(store))[0]
    export_run(store, name, tmp_path / "x.pb.gz")
    profile = read_pprof((tmp_path / "x.pb.gz").read_bytes())
    assert profile.types == [("samples", "count"), ("cpu-clock", "ns")]
    totals = tuple(map(sum, zip(*(one.values for one in profile.samples), strict=True)))
    assert totals == weights(store)[name][::-1]
    export_run(store, name, tmp_path / "x.folded")
    add_to_store(store, tmp_path / "x.folded", {"version": "again"})
    assert store.query("SELECT sum(weight)::BIGINT FROM samples JOIN runs USING (run) WHERE label = 'again'").rows == [
        (weights(store)[name][0],)
    ]


def test_without_duckdb_the_command_that_installs_it_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert cli.main(["store", "add", str(tmp_path / "s"), str(tmp_path)]) == HostError.exit_code
    assert f"{sys.executable} -m pip install duckdb==2.0.0" in capsys.readouterr().err
    pinned = (Path(__file__).parents[2] / "requirements-dev.txt").read_text()
    assert "\nduckdb==2.0.0\n" in pinned


def test_what_makes_no_sense_is_refused(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_json(tmp_path / "notes.json", {})
    for arguments, words in (
        (["ls", str(tmp_path)], "is no store"),
        (["add", str(store.directory), str(tmp_path)], "is no run, comparison, experiment or search"),
        (["add", str(store.directory), str(tmp_path / "notes.json")], "does not say what it is"),
        (["sql", str(store.directory), "SELECT nothing FROM nowhere"], "DuckDB does not take this query"),
        (["export", str(store.directory), "nobody", "-o", str(tmp_path / "x.folded")], "holds no run nobody"),
    ):
        assert cli.main(["store", *arguments]) == 2
        assert words in capsys.readouterr().err
