"""What a record says of its database is text in the file, and has types in the program."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from ground.errors import MeasurementError
from ground.results.database_facts import DatabaseFacts
from ground.results.files import Files
from ground.results.run import Run, open_run
from ground.system.unpack import unpack_into
from tests.ground.results.test_older_runs import KEPT
from tests.records import run_record


def test_a_kept_record_is_written_as_it_was_read(tmp_path: Path) -> None:
    with tarfile.open(KEPT) as archive:
        unpack_into(archive, tmp_path)
    run = open_run(tmp_path / "run-0.1.0")
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
