"""The history of a store without its page: lines of the terminal, files for Otava, and what the page says in words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ground.results.history import History
from ground.results.store.database import Store
from ioflame import cli
from ioflame.store.history import read_history, write_otava
from tests.viz.histories import VERSIONS, add_figure, made
from tests.viz.markup import rows_of, text_of
from viz.page.history import render_history
from viz.terminal.history import left_out, render_steps


@pytest.fixture(scope="module")
def slower() -> History:
    return made(2, 1, 3, 25)


def test_a_step_is_told_with_its_place_its_size_and_its_categories(slower: History) -> None:
    told = [line for line in render_steps(slower).splitlines() if "8.4.0 to 8.5.0" in line]
    assert [line.split()[0] for line in told] == ["worse", "worse"] and "test0, host0, qps" in told[0]
    rows = rows_of(render_history(slower, "store"), "Steps")
    (row,) = (row for row in rows if row[:3] == ["test0, host0", "qps", "8.4.0 to 8.5.0"])
    assert row[3].startswith("-") and row[5] == "worse; CPU: LRU +2.00 us"


def test_a_history_without_a_step_says_so() -> None:
    same = made(1, 1, 3, None)
    assert render_steps(same) == "no step in 2 series"
    page = render_history(same, "store")
    assert "No step found" in text_of(page) and "40 versions, 1 tests, 1 hosts" in text_of(page)
    assert rows_of(page, "Noise")[1] == ["host0", "2026-01-01", "4", "1.50 %", "0.70 %", "+0.10 %", "+2.00 %"]


def test_labels_that_are_no_versions_are_named_but_for_those_beyond_the_eighth(slower: History) -> None:
    names = [f"arm{number}" for number in range(10)]
    told = left_out(replace(slower, left_out=names))
    assert "arm7, and 2 more" in told and "arm8" not in told and left_out(slower) == ""
    assert told in text_of(render_history(replace(slower, left_out=names), "store"))


def test_arms_alone_are_a_history_when_they_are_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(tmp_path / "store", create=True)
    for number, label in enumerate(("before", "after")):
        add_figure(
            store, f"run{number}", label, "qps", 1000.0, test="t", host="h", created=f"2026-01-01T00:00:0{number}"
        )
    assert cli.main(["history", str(store.directory)]) == 1
    told = capsys.readouterr().err
    assert "Left out, as no versions: before, after" in told and "--label '*'" in told
    assert cli.main(["history", str(store.directory), "--label", "*"]) == 0
    assert [one.labels for one in read_history(store, ["*"]).series] == [["before", "after"]]


def test_of_figures_with_a_point_in_their_names_only_rows_of_accounts_are_looked_at(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", create=True)
    for number, label in enumerate(("10.1.0", "10.2.0")):
        for metric in ("qps", "io.lat", "p99", "report.foo", "compaction.all", "writepath.memtable"):
            run = f"run{number}-{metric}"
            add_figure(store, run, label, metric, 1.0, test="t", host="h", created=f"2026-01-01T00:00:0{number}")
    # The device's latency is no figure of a version.
    assert {one.metric for one in read_history(store).series} == {"qps", "p99", "compaction.all"}
    (asked,) = read_history(store, metrics=["writepath.memtable"]).series
    assert asked.metric == "writepath.memtable"


def test_a_csv_for_each_test_and_host(tmp_path: Path) -> None:
    """As Otava reads them: no cell is empty, times are in order, and a configuration names every file."""
    history = made(1, 1, 2, None)
    lacking = replace(history.series[1], labels=VERSIONS[:-1], created=history.series[1].created[:-1])
    for series, heads, rows in (
        (history.series, ["time,version,qps,cpuPer"], [40]),
        ([history.series[0], lacking], ["time,version,qps", "time,version,cpuPer"], [40, 39]),
    ):
        config = json.loads(write_otava(replace(history, series=series), tmp_path / f"csv{len(rows)}").read_text())
        tests = config["tests"]
        assert config["test_groups"]["all"] == list(tests)
        metrics = {name: of["direction"] for one in tests.values() for name, of in one["metrics"].items()}
        assert metrics == {"qps": 1, "cpuPer": -1}
        for one, head, count in zip(tests.values(), heads, rows, strict=True):
            first, *lines = Path(one["file"]).read_text().splitlines()
            assert first == head and [line.split(",")[1] for line in lines] == VERSIONS[:count]
            times = [line.split(",")[0] for line in lines]
            assert times == sorted(set(times)) and not any(",," in line or line.endswith(",") for line in lines)


def test_tests_that_differ_in_punctuation_have_files_of_their_own(tmp_path: Path) -> None:
    (series,) = [one for one in made(1, 1, 2, None).series if one.metric == "qps"]
    names = ["get t1", "get, t1", "get+t1", "get_t1"]
    history = History(VERSIONS, [replace(series, test=name, labels=VERSIONS) for name in names])
    tests = json.loads(write_otava(history, tmp_path).read_text())["tests"]
    assert len(tests) == len({one["file"] for one in tests.values()}) == len(names) == len(list(tmp_path.glob("*.csv")))
