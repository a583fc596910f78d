"""`ioflame sweep`: runs of a real client at rates that came from what it does without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ground.results.files import Files
from ground.results.sweep import PERCENTILES, SweepRun
from tests.conftest import Ioflame
from tests.ioflame.asked import asked

pytestmark = pytest.mark.long

# LMDB answers in microseconds: a second has tens of thousands of queries.
SMALL = ("--engine=lmdb", "--scale=smoke", "--num-keys=20000", "--duration=1")


def test_rates_are_offered_and_what_came_of_them_is_kept(
    ioflame: Ioflame, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, err = ioflame.run(
        "sweep", *SMALL, f"--db-dir={tmp_path / 'db'}", f"--out={tmp_path / 'out'}", "--runs=2", "--limit=p99=10s"
    )
    assert code in (0, 1), err + out
    (directory,) = (tmp_path / "out").glob("*-sweep-readrandom")
    record = SweepRun.open(directory).record
    assert record.closed.rate is None and record.closed.queries > 1000
    assert [one.rate for one in record.offered] == [record.closed.per_second * part for part in (0.25, 0.5)]
    for one in (record.closed, *record.offered):
        assert one.cpu > 0
        if not one.overloaded:
            latencies = [one.latency[name] for name in PERCENTILES]
            assert latencies == sorted(latencies) and latencies[0] > 0
            # Nothing is answered that was not asked.
            assert one.rate is None or one.queries <= one.rate * (one.seconds + 1) * 1.1
    assert "queries a second keep p99 <= 10 s" in out or "overloaded" in out
    assert "Latency by rate" in (directory / Files.REPORT).read_text()
    # A finished one again.
    code, again, err = asked(capsys, "sweep", directory)
    assert code == 0 and again.splitlines()[-1] == out.splitlines()[-1], err
