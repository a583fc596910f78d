"""The ready questions in Spark, on the files of a store: the rows that DuckDB gives."""

from __future__ import annotations

import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from ground.results.store.database import Store
from ground.results.store.parquet_files import stored_query
from ioflame.store.add import add_to_store
from tests.ioflame.analysis.fleets import Fleet
from tests.ioflame.store.stored import made_comparison, made_run, words

# With what is asked of the store below: versions of two services and of a comparison.
QUESTIONS = (
    "FROM latest", "FROM builds", "FROM relative_qps", "FROM cpu_per_query", "FROM us_per_query", "FROM noise",
    "FROM cpu_hours", "FROM stack_costs('7.8.3', '9.0.1')", "FROM frames_by_difference('7.8.3', '9.0.1')",
    "FROM frames_by_difference('1.0', '2.0')", "FROM stacks_through('9.0.1', 'eng::Cache::Lookup')",
    "FROM stacks_through('2.0', 'Cache::Lookup')",
)  # fmt: skip
# A process of its own: Spark's JVM ends with it.
ASK = """
import json, sys
from pyspark.sql import SparkSession
from ground.results.store.spark import SETTINGS, open_in_spark
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
    """Profiles, a comparison with a twin, two services on twelve hosts over two days; some merged, also in another
    store, one added half."""
    place = tmp_path_factory.mktemp("fleet")
    dice, fleet = random.Random(19), Fleet()
    for number in range(48):
        version, service = ("1.0", "2.0")[number % 2], ("orders", "index")[number % 3 == 0]
        samples = {"Cache::Lookup": dice.randrange(900, 1100), "Db::Get": dice.randrange(4000, 5000)}
        fleet.run(f"h{number % 12}", version, samples, dice.gauss(20, 1), service=service,
                  day=f"2026-11-{19 + number // 24}", probability=(0.1, 0.02)[number % 4 == 0])  # fmt: skip
    made = fleet.store(place / "s")
    (place / "comparison").mkdir()
    add_to_store(made, made_comparison(place / "comparison"))
    for number in range(7):
        run = made_run(place / "runs", 100 + number, ("7.8.3", "9.0.1")[number % 2], 30 * (number % 2))
        last = add_to_store(made, run.directory).new
        if number == 3:
            before = shutil.copytree(made.directory, place / "before")
            made.compact()
            # Of another store, which was merged apart, with a run more: most of it counts already.
            other = Store(shutil.copytree(before, place / "other"))
            add_to_store(other, made_run(place / "runs", 200).directory)
            other.compact()
            shutil.copytree(other.directory, made.directory, dirs_exist_ok=True)
            # As a merge leaves them that is killed before it takes away what it merged.
            shutil.copytree(before, made.directory, dirs_exist_ok=True)
    # Without its row in `runs`, a run is none.
    next(made.directory.glob(f"v1/runs/*/{last[0]}.parquet")).unlink()
    return made.directory


def same(one: object, other: object) -> bool:
    """Sums of floats are made in another order."""
    if isinstance(one, float) and other is not None:
        return math.isclose(one, float(str(other)), rel_tol=1e-9, abs_tol=1e-12)
    return one == other


def test_every_ready_view_is_asked() -> None:
    made = re.findall(r"CREATE (?:VIEW|MACRO) (\w+)", stored_query("views.sql"))
    assert set(made) == {re.split(r"\W", question)[1] for question in QUESTIONS}


@pytest.mark.by_hand
@pytest.mark.needs("spark")
def test_the_rows_are_those_of_duckdb(store: Path, tmp_path: Path) -> None:
    java = f"-XX:-UsePerfData -Djava.io.tmpdir={tmp_path}"
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(store), str(tmp_path), *QUESTIONS], capture_output=True, text=True, check=False,
        env={**os.environ, "JDK_JAVA_OPTIONS": java, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers = json.loads((tmp_path / "answers.json").read_text())
    for question in QUESTIONS:
        ours = Store(store).query(question)
        columns, theirs = answers[question]
        assert columns == ours.columns, question
        expected = [[str(one) if isinstance(one, datetime) else one for one in row] for row in ours.rows]
        assert len(theirs) == len(expected) > 0, question
        for row, known in zip(sorted(theirs, key=words), sorted(expected, key=words), strict=True):
            assert all(map(same, known, row)), (question, known, row)
