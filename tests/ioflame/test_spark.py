"""The ready questions in Spark, on the files of a store: the rows that DuckDB gives."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pytest

from ioflame.profile.store.add import add_to_store
from ioflame.results.store.database import Store
from tests.ioflame.test_store import FIGURES, made_run

# A process of its own: Spark's JVM ends with it.
ASK = """
import json, sys
from pyspark.sql import SparkSession
from ioflame.results.store.spark import SETTINGS, open_in_spark
store, place, *questions = sys.argv[1:]
here = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"}
place_of = {"spark.local.dir": place, "spark.sql.warehouse.dir": place, "spark.sql.shuffle.partitions": "2"}
session = SparkSession.builder.master("local[2]")
for key, value in {**SETTINGS, **here, **place_of}.items():
    session = session.config(key, value)
spark = session.getOrCreate()
open_in_spark(spark, store)
answers = {}
for one in questions:
    found = spark.sql("SELECT * " + one)
    answers[one] = found.columns, [list(row) for row in found.collect()]
spark.stop()
json.dump(answers, open(place + "/answers.json", "w"), default=str)
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six runs of two versions, the first four of them merged; one that was never added whole."""
    place = tmp_path_factory.mktemp("fleet")
    made = Store(place / "s", create=True)
    for number in range(7):
        run = made_run(place / "runs", 100 + number, ("7.8.3", "9.0.1")[number % 2], 30 * (number % 2))
        add_to_store(made, run.directory)
        if number == 3:
            made.compact()
    # Without its row in `runs`, a run is none.
    next(path for path in sorted(made.directory.glob("v1/runs/*/*.parquet")) if "merged" not in path.name).unlink()
    return made.directory


def same(one: object, other: object) -> bool:
    """Sums of floats are made in another order."""
    if isinstance(one, float) and other is not None:
        return math.isclose(one, float(str(other)), rel_tol=1e-9, abs_tol=1e-12)
    return one == other


def words(row: Sequence[object]) -> str:
    return repr([value for value in row if not isinstance(value, float)])


@pytest.mark.long
@pytest.mark.needs("spark")
def test_the_rows_are_those_of_duckdb(store: Path, tmp_path: Path) -> None:
    questions = [*FIGURES, "FROM cpu_hours"]
    java = f"-XX:-UsePerfData -Djava.io.tmpdir={tmp_path}"
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(store), str(tmp_path), *questions], capture_output=True, text=True, check=False,
        env={**os.environ, "JDK_JAVA_OPTIONS": java, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers = json.loads((tmp_path / "answers.json").read_text())
    for question in questions:
        ours = Store(store).query(question)
        columns, theirs = answers[question]
        assert columns == ours.columns, question
        expected = [[str(one) if isinstance(one, datetime) else one for one in row] for row in ours.rows]
        assert len(theirs) == len(expected) > 0, question
        for row, known in zip(sorted(theirs, key=words), sorted(expected, key=words), strict=True):
            assert all(map(same, known, row)), (question, known, row)
