"""The history of a store without its page: lines of the terminal, files for Otava, and what the page says in words."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from ground.results.history import History
from ground.results.store.database import Store
from ioflame import cli
from ioflame.store.add import add_to_store
from ioflame.store.history import read_history, write_otava
from tests.places import DATA
from tests.viz.histories import VERSIONS, add_figure, made
from tests.viz.markup import rows_of, text_of
from viz.page.history import render_history
from viz.tables.history import history_section, left_out
from viz.terminal.table import section_text


@pytest.fixture(scope="module")
def slower() -> History:
    return made(2, 1, 3, 25)


def test_a_step_is_told_with_its_place_its_size_and_its_categories(slower: History) -> None:
    told = [line for line in section_text(history_section(slower), 200).splitlines() if "8.4.0 to 8.5.0" in line]
    assert all("worse" in line for line in told)
    assert re.search(r"^ *test0, host0 +qps +8\.4\.0 to 8\.5\.0 +-[\d.]+ .*worse; CPU: LRU \+2\.00 us$", told[0])
    # Labels that are no versions are named, but for those beyond the eighth.
    names = [f"arm{number}" for number in range(10)]
    words = left_out(replace(slower, left_out=names))
    assert "arm7, and 2 more" in words and "arm8" not in words and left_out(slower) == ""
    assert words in text_of(render_history(replace(slower, left_out=names), "store"))


def test_a_history_without_a_step_says_so() -> None:
    same = made(1, 1, 3, None)
    assert section_text(history_section(same), 200) == "no step in 2 series"
    page = render_history(same, "store")
    assert "No step found" in text_of(page) and "40 versions, 1 tests, 1 hosts" in text_of(page)
    # Where nothing changes no cell has colour.
    assert not re.search(r'<td class="(warn|note)|<td[^>]*><b', page)
    assert rows_of(page, "Noise")[1] == ["host0", "2026-01-01", "4", "1.50", "0.70", "+0.10", "+2.00"]


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
    # Tests that differ in punctuation have files of their own.
    (qps,) = [one for one in history.series if one.metric == "qps"]
    names = ["get t1", "get, t1", "get+t1", "get_t1"]
    history = History(VERSIONS, [replace(qps, test=name, labels=VERSIONS) for name in names])
    tests = json.loads(write_otava(history, tmp_path).read_text())["tests"]
    assert len(tests) == len({one["file"] for one in tests.values()}) == len(names) == len(list(tmp_path.glob("*.csv")))


def test_what_is_no_version_changes_no_order(tmp_path: Path) -> None:
    """The published versions of one day, then one comparison's arms and one attached program."""
    store = Store(tmp_path / "store", create=True)
    add_to_store(store, DATA / "relative-qps.tsv", {"host": "c4a"})
    alone = read_history(store)
    others = (("lru", "iobuf fillseq clang"), ("hyper", "iobuf fillseq clang"), ("in /usr/bin/python3.11", "python"))
    for number, (label, test) in enumerate(others):
        when = {"host": "c4a", "created": "2020-01-01T00:00:00"}
        add_figure(store, f"other{number}", label, "qps.relative", 3.0, test=test, **when)
    mixed = read_history(store)
    assert (mixed.versions, mixed.series) == (alone.versions, alone.series)
    # By number, not as text.
    assert mixed.versions == sorted(mixed.versions, key=lambda one: [int(part) for part in one.split(".")])
    assert (mixed.versions[0], mixed.versions != sorted(mixed.versions)) == ("6.29.5", True)
    names = "hyper, in /usr/bin/python3.11, lru"
    assert section_text(history_section(mixed), 200).splitlines()[-1].startswith(f"Left out, as no versions: {names}.")
    # Whoever asks for some has them behind the versions, which stay the base.
    asked = read_history(store, ["l*"])
    assert asked.versions == [*alone.versions, "lru"] and asked.left_out == ["hyper", "in /usr/bin/python3.11"]
    (series,) = (one for one in asked.series if "lru" in one.labels)
    assert (series.labels[0], series.labels[-1]) == ("6.29.5", "lru")
    assert series.value(len(series.labels) - 1) == pytest.approx(3)
    # Nothing is called ended for want of a label that is no version.
    assert section_text(history_section(asked), 200).count("\nNot measured") == section_text(
        history_section(alone), 200
    ).count("\nNot measured")
