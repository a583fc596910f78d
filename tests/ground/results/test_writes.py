"""Every row of the tables on RocksDB's performance page, recomputed from the figures it printed."""

from __future__ import annotations

import csv

import pytest

from ground.results.writes import COLUMNS, columns
from tests.places import DATA

TABLE = DATA / "write-amplification.tsv"


def published() -> list[dict[str, str]]:
    with TABLE.open() as file:
        return list(csv.DictReader(file, delimiter="\t"))


def seconds(text: str) -> float:
    hours, minutes, rest = text.split(":") if text else ("0", "0", "0")
    return 3600 * int(hours) + 60 * int(minutes) + float(rest)


def test_the_page_has_28_rows() -> None:
    assert len(published()) == 28


@pytest.mark.parametrize("row", published(), ids=lambda row: f"{row['test']}-{row['variant']}")
def test_a_row_recomputes(row: dict[str, str]) -> None:
    figures = {
        "ops_per_second": float(row["ops/sec"]), "entry_bytes": 20 + int(row["value"]),
        "size_gb": float(row["Size-GB"]), "flushed_gb": float(row["L0_GB"]), "sum_gb": float(row["Sum_GB"]),
        "uptime": float(row["Uptime"] or 0), "stall_seconds": seconds(row["Stall-time"]), "du_kib": int(row["du"]),
    }  # fmt: skip
    got = columns(figures, int(row["threads"]))
    assert got is not None
    assert got.keys() == COLUMNS.keys()
    for name in ("ops/sec", "Size-GB", "L0_GB", "Sum_GB", "W-Amp", "du"):
        assert got[name] == row[name], name
    # The page's value is from more digits of the latency than its ops/sec has.
    assert float(got["usec/op"]) == pytest.approx(float(row["usec/op"]), abs=0.11)
    if row["Uptime"]:
        assert float(got["W-MB/s"]) == pytest.approx(float(row["W-MB/s"]), abs=0.001)
        assert float(got["Stall%"]) == pytest.approx(float(row["Stall%"]), abs=0.051)
    else:
        assert (got["W-MB/s"], got["Stall%"]) == ("-", "-")
    # A tenth to a quarter of the keys that are read were never written: the load is in random order.
    found = float(row["mb/sec"]) / float(got["mb/sec"])
    if row["test"] in ("bulkload", "overwrite"):
        assert got["mb/sec"] == row["mb/sec"]
    else:
        assert 0.76 < found < 0.93
        again = columns({**figures, "found": found, "reads": 1.0})
        assert again is not None and again["mb/sec"] == row["mb/sec"]
    assert columns({**figures, "reads": 0.0}) == columns({**figures})
    assert columns({name: value for name, value in figures.items() if name != "stall_seconds"}) is None
