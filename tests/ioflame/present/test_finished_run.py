"""What is shown of a finished run, read from its files: of one that ioflame 0.1.0 made, and of one made in code."""

from __future__ import annotations

import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from ground.errors import MeasurementError, UsageError
from ground.results.files import Files
from ground.results.profile import read_profile
from ground.results.record import Target
from ground.results.run import Run, open_run
from ground.system.unpack import unpack_into
from ground.text.progress import Reporter
from ioflame.instruments import INSTRUMENTS
from ioflame.present.comparison_tables import tables_of as beside
from ioflame.present.frames import profile_runs
from ioflame.present.observed import read_observed
from ioflame.present.rules_check import checked_rules, own_rules
from ioflame.present.run import write_pages
from ioflame.present.stacks import Source, read_stacks
from ioflame.stages.queries import queries_each_second
from ioflame.stages.rules import rules_of
from ioflame.stages.run import Analysed
from ioflame.store.runs import run_name, utc
from tests.ground.results.test_older_runs import KEPT
from tests.ioflame.store.stored import made_run
from tests.records import run_record
from tests.viz import compared
from workloads.registry import engine_named, rules_named


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Run:
    place = tmp_path_factory.mktemp("older")
    with tarfile.open(KEPT) as archive:
        unpack_into(archive, place)
    return open_run(place / "run-0.1.0")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return made_run(tmp_path_factory.mktemp("made"), 100)


# ---- what observers left ---------------------------------------------------------------------------------------------
def test_what_observers_left_is_read_and_what_cannot_be_is_a_note(older: Run, tmp_path: Path) -> None:
    notes: list[str] = []
    found = read_observed(older, notes)
    there = {Files.LADDER, Files.IO_LATENCY, Files.OFF_CPU, Files.RUN_QUEUE, Files.WALL_CLOCK}
    assert notes == [] and set(found.results) == there
    (graph,) = found.graphs
    assert graph.key == "off" and sum(stack.weight for stack in graph.stacks) > 0
    broken = Run.create(tmp_path, older.record)
    broken.path(Files.IO_LATENCY).write_text("{")
    found = read_observed(broken, notes)
    assert found.results == {} and found.graphs == []
    assert len(notes) == 1 and notes[0].startswith("iolat.json is not shown: ")


def test_each_observer_of_a_run_has_its_text_and_its_checks(older: Run) -> None:
    found = {}
    for name, start in (("iolat", "IO latency of"), ("ladder", "Latency ladder"), ("runqlat", "Run-queue waits")):
        instrument = INSTRUMENTS[name]
        assert instrument.analyse is not None
        assert instrument.parts[name].text(older).startswith(start)
        found[name] = {check.name for check in instrument.analyse(older, rules_of(older))}
    assert {"iolat losses", "iolat coverage"} <= found["iolat"] and "ladder sum" in found["ladder"]


def test_queries_of_each_second_are_those_of_the_clients_report(older: Run, tmp_path: Path) -> None:
    engine = engine_named("rocksdb")
    rates = queries_each_second(older, engine)
    report = older.path(engine.report_name).read_text().splitlines()[1:]
    assert rates == [int(line.split(",")[1]) for line in report]
    empty = Run.create(tmp_path, run_record())
    assert queries_each_second(empty, engine) == []
    empty.path(engine.report_name).write_text("secs_elapsed,interval_qps\n1,many\n")
    with pytest.raises(MeasurementError):
        queries_each_second(empty, engine)


# ---- rules -----------------------------------------------------------------------------------------------------------
def test_a_run_is_sorted_by_the_rules_of_its_engine_or_by_its_own(tmp_path: Path) -> None:
    run = Run.create(tmp_path, run_record())
    assert rules_of(run) == rules_named("rocksdb")
    service = Run.create(tmp_path, replace(run_record("w"), engine="postgresql", target=Target("--pid 1", "p", [1])))
    assert rules_of(service).findings == ()
    service.path(Files.RULES).write_text("")
    assert rules_of(service).categories == str(service.path(Files.RULES))


def test_rules_of_ones_own_are_tried_on_a_run(tmp_path: Path) -> None:
    run = Run.create(tmp_path, run_record())
    run.path(Files.FOLDED).write_text("c;main;lookup;memcmp 70\nc;main;serve 30\n", encoding="ascii")
    rules = tmp_path / "my.toml"
    entry = '[[view.owner.category]]\nname = "{}"\nanchors = ["{}"]\n'
    head = 'schema = 1\nengine = "mine"\nchecked = []\n[view.owner]\ndescription = "d"\nwalk = "root"\n'
    rules.write_text(head + entry.format("cache", "lookup"), encoding="ascii")
    text, unmatched = checked_rules(run.directory, rules)
    assert "owner view: 30.00 % is in no row" in text and "serve" in text and unmatched == []
    assert set(own_rules(rules)["view"]) == {"owner", "leaf"}  # which tables need, too
    rules.write_text(head + entry.format("cache", "lookup") + entry.format("gone", "gone"), encoding="ascii")
    text, unmatched = checked_rules(run.directory, rules)
    assert "matched nothing: gone" in text and unmatched == ["owner: gone"]
    run.path(Files.FOLDED).unlink()
    with pytest.raises(UsageError, match="no stacks to sort"):
        checked_rules(run.directory, rules)


# ---- stacks ----------------------------------------------------------------------------------------------------------
def test_a_recording_in_a_pipe_is_refused() -> None:
    with pytest.raises(UsageError, match="which a pipe cannot reach"):
        read_stacks(Source("-", b"PERFILE2" + bytes(200)), None, None, "owner")


# ---- pages, comparisons, the store -----------------------------------------------------------------------------------
def test_pages_of_a_run_are_its_flame_graph_its_summary_and_its_report(made: Run) -> None:
    folded = read_profile(made.path(Files.PROFILE))
    write_pages(made, Analysed(folded, {}, [], []), Reporter(quiet=True))
    assert "qps" in made.path(Files.SUMMARY).read_text() and "<title>" in made.path(Files.REPORT).read_text()


def test_a_profile_stands_for_the_cpu_per_query_of_its_run(made: Run, tmp_path: Path) -> None:
    (found,) = profile_runs([made, Run.create(tmp_path, run_record())])
    assert (found.us_per_query, found.profile) == (made.record.metrics["cpuPer"], made.path(Files.PROFILE))
    assert found.queries == sum(window.counters.queries or 0 for window in made.record.windows if window.kind == "perf")


def test_comparisons_of_different_bases_do_not_stand_beside_each_other(tmp_path: Path) -> None:
    shown = compared.view(tmp_path, 1.2)
    arms = [replace(arm, name="base" if arm.name == "A" else arm.name) for arm in shown.record.arms]
    with pytest.raises(UsageError, match="the comparisons have different bases: A, base"):
        beside([(shown.record, shown.verdicts), (replace(shown.record, arms=arms), shown.verdicts)])


def test_a_run_has_one_name_in_every_store_and_one_clock() -> None:
    created = "2026-11-20T19:30:27+0000"
    name = run_name(created, "read random", "host", 5)
    assert name.startswith("20261120T193027-read_random-") and name == run_name(created, "read random", "host", 5)
    assert name != run_name(created, "read random", "host", 6)
    assert utc("2026-11-20T19:30:27+0200") == "2026-11-20T17:30:27" and utc("2026-11-20") == "2026-11-20T00:00:00"
    with pytest.raises(MeasurementError, match="was made at 'soon'"):
        utc("soon")
