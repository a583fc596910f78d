"""A run directory that ioflame 0.1.0 made opens with today's commands; what a record says of its database has types."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from ground.errors import EXIT_OK, MeasurementError
from ground.results.categories import read_categories
from ground.results.database_facts import DatabaseFacts
from ground.results.files import Files
from ground.results.profile import read_profile
from ground.results.run import Run, open_run
from ground.system.unpack import unpack_into
from ioflame.cli import main
from tests.places import DATA
from tests.records import run_record

KEPT = DATA / "run-0.1.0.tar.xz"


@pytest.fixture
def older(tmp_path: Path) -> Path:
    with tarfile.open(KEPT) as archive:
        unpack_into(archive, tmp_path)
    return tmp_path / "run-0.1.0"


def test_its_page_shows_every_part_and_says_what_is_not_known(older: Path) -> None:
    assert main(["report", str(older)]) == EXIT_OK
    page = (older / "report.html").read_text(encoding="utf-8")
    for part in ("Latency ladder", "IO latency", "Off the CPU", "Run-queue waits", "libc+k"):
        assert part in page
    assert "Threads and objects are not known: profile.json is not in this run" in page
    # What it cannot show, it names; nothing is named here but that.
    assert "is not shown" not in page


@pytest.mark.needs("perf")
def test_it_can_be_analysed_again_with_the_same_stacks(older: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stacks = sorted((older / "stacks.folded").read_text(encoding="utf-8").splitlines())
    before = read_categories(older)
    assert main(["analyse", "-q", str(older)]) == EXIT_OK
    record = open_run(older).record
    assert record.profile is not None
    assert record.profile.weight == before.total_weight == record.profile.report_weight
    profile = read_profile(older / "profile.json")
    assert sum(stack.weight for stack in profile.each_stack()) == before.total_weight
    # Names need the very binaries and kernel that were recorded: where these are here, the stacks are the same.
    if sorted((older / "stacks.folded").read_text(encoding="utf-8").splitlines()) == stacks:
        # The rules have rows more than they had, which nothing here is part of.
        assert [(row.name, row.weight) for row in read_categories(older).rows if row.weight] == [
            (row.name, row.weight) for row in before.rows if row.weight
        ]
    # The results of its observers had no schema numbers.
    assert "schema" not in json.loads((older / "iolat.json").read_text(encoding="utf-8"))
    printed = capsys.readouterr().out
    assert "Latency from the engine to the device" in printed
    assert "Wall clock by category" in (older / "summary.txt").read_text(encoding="utf-8")


def test_a_kept_record_is_written_as_it_was_read(older: Path) -> None:
    run = open_run(older)
    before = json.loads(run.path(Files.RECORD).read_text(encoding="utf-8"))["database"]
    assert (run.record.database.num_keys, run.record.database.direct) == (1_000_000, True)
    run.save()
    after = json.loads(run.path(Files.RECORD).read_text(encoding="utf-8"))["database"]
    assert list(after.items()) == list(before.items())


def test_of_a_target_the_description_is_first(tmp_path: Path) -> None:
    run = Run.create(tmp_path, run_record(database=DatabaseFacts(device="vda", description="on device vda")))
    written = json.loads(run.path(Files.RECORD).read_text(encoding="utf-8"))["database"]
    assert list(written.items()) == [("description", "on device vda"), ("device", "vda")]
    assert open_run(run.directory).record == run.record


@pytest.mark.parametrize(
    ("database", "says"),
    [
        ({"num_keys": "many"}, "database.num_keys is 'many'"),
        ({"direct": "yes"}, "database.direct is 'yes'"),
        ({"num_keys": 7}, "Expected `str`"),
    ],
)
def test_what_is_no_such_value_is_refused_by_name(tmp_path: Path, database: dict[str, object], says: str) -> None:
    run = Run.create(tmp_path, run_record())
    record = json.loads(run.path(Files.RECORD).read_text(encoding="utf-8"))
    run.path(Files.RECORD).write_text(json.dumps(record | {"database": database}))
    with pytest.raises(MeasurementError, match=says):
        open_run(run.directory)
