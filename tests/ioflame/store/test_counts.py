"""Counts in a store: a version's instructions beside its times, and the version since which they are more."""

from __future__ import annotations

from pathlib import Path

import pytest

from ground.results.counted import Counted, CountedArm, CountRecord, CountRun, Event, OfOperation
from ground.results.store.database import Store
from ioflame import cli
from ioflame.store.add import add_to_store
from ioflame.store.counts import counted_tables
from ioflame.store.history import read_history

VERSIONS = ("7.10.2", "8.11.4", "9.10.0", "10.4.2", "10.5.1", "10.6.2")
# The fourth takes 3 % more; the others differ by less than another tree would.
GET = (13_000.0, 13_004.0, 13_002.0, 13_400.0, 13_401.0, 13_405.0)


def counted(instructions: float) -> Counted:
    counts = [round(1000 * (instructions + more)) for more in (0.0, 1.0, 2.0)]
    return Counted(1000, {Event.INSTRUCTIONS: counts, Event.MISPREDICTIONS: [50_000] * 3}, again=counts[0])


def directory_of(place: Path, values: tuple[float, ...] = GET) -> Path:
    arms = [CountedArm(name, name, {"engine_artifact": f"rocksdbjni {name}"}) for name in VERSIONS]
    made = {name: counted(value) for name, value in zip(VERSIONS, values, strict=True)}
    made["10.6.2"] = made["10.6.2"] if values[-1] else Counted(lacks="none in this version")
    operations = {"get": OfOperation("a Get", "operation", "owner", made)}
    place.mkdir()
    depends_on = {"valgrind": "3.19.0"}
    record = CountRecord("0.1", "2026-11-26T20:00:00+0000", "rocksdb", depends_on, [0, 1024, 2064], arms, operations)
    CountRun(place, record).save()
    return place


def test_a_run_is_an_operation_of_an_arm_with_its_range(tmp_path: Path) -> None:
    made = counted_tables(directory_of(tmp_path / "count"))
    rows = [tables.rows["runs"][0] for tables in made]
    assert [(row["label"], row["test"], row["source"]) for row in rows] == [
        (v, "get counted", "count") for v in VERSIONS
    ]
    assert len({row["host"] for row in rows}) == 1 and len({tables.run for tables in made}) == len(VERSIONS)
    figures = {row["metric"]: row for row in made[3].rows["figures"]}
    instructions = figures["instructions"]
    assert [instructions[name] for name in ("low", "value", "high", "n")] == [13_400.0, 13_401.0, 13_402.0, 3]
    assert figures["mispredictions"]["value"] == 50.0
    # An operation that a release lacks is no run.
    assert len(counted_tables(directory_of(tmp_path / "lacking", (*GET[:-1], 0.0)))) == len(VERSIONS) - 1


@pytest.mark.long
def test_a_version_that_takes_more_is_named_without_a_repeat(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path / "store", create=True)
    added = add_to_store(store, directory_of(tmp_path / "count"))
    assert len(added.new) == len(VERSIONS) and not added.left_out
    found = read_history(store, metrics=["instructions"])
    (series,) = found.series
    assert (series.test, series.metric, series.labels) == ("get counted", "instructions", list(VERSIONS))
    assert series.value(0) == pytest.approx(13_001.0)
    (step,) = series.fit.features
    assert (series.labels[step.at], step.candidate, step.dip) == ("10.4.2", False, False)
    assert step.low < 1.0308 < step.high and series.worse(step)
    # The mispredictions are another figure, in which nothing changed.
    assert [len(one.fit.features) for one in read_history(store).series] == [1, 0]
    assert store.check() == []
    assert cli.main(["history", str(store.directory), "--metric=instructions"]) == 0
    steps = capsys.readouterr().out
    assert "get counted" in steps and "worse" in steps and "better" not in steps
