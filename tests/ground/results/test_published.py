"""Published tables, recomputed: RocksDB's performance page and reports of benchmark.sh; torn lines are reported."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from ground.results.benchmark_report import read_benchmark_reports
from ground.results.writes import COLUMNS, columns
from ioflame.cli import main
from ioflame.present.imported import imported_view, relative_qps
from tests.ioflame.analysis.test_cells import experiment, holds, judged_pairs, table
from tests.places import DATA

TABLE = DATA / "write-amplification.tsv"


def published() -> list[dict[str, str]]:
    with TABLE.open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert len(rows) == 28
    return rows


def seconds(text: str) -> float:
    hours, minutes, rest = text.split(":") if text else ("0", "0", "0")
    return 3600 * int(hours) + 60 * int(minutes) + float(rest)


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


ABSOLUTE = DATA / "9-absolute.tsv"
HEAD = "ops_sec\tmb_sec\ttest\tdate\tversion\n"


def test_the_published_relative_qps_come_out_to_their_digits() -> None:
    rows, left_out = read_benchmark_reports([ABSOLUTE])
    assert left_out == []
    tables = dict(relative_qps(rows))
    assert list(tables) == ["byrx, gcc"] + [
        f"{workload}, {build}" for workload in ("byrx", "iobuf", "iodir") for build in ("clang", "clang.lto")
    ]
    compared = 0
    for published in table("9-relative-qps.tsv"):
        found = tables.get(f"{published['workload']}, {published['build']}")
        if found is None:
            continue
        cells = found.cells[published["test"]]
        # The base of the published table is gcc: of the other two workloads it has no absolute figures of that.
        base = None if found.base == "6.29.5 gcc" else base_of(published["workload"], published["test"])
        for column in found.columns:
            version, build = column.split()
            if build == published["build"] and published[version]:
                ratio = cells[column].ratio
                if base is None:
                    assert f"{ratio:.2f}" == published[version], (published["test"], column)
                else:
                    assert ratio * base == pytest.approx(float(published[version]), abs=0.011)
                compared += 1
    assert compared == 7 * 5 * (3 + 2 + 2)


def base_of(workload: str, test: str) -> float:
    """6.29.5 by clang against gcc, as published."""
    return next(
        float(row["6.29.5"]) for row in table("9-relative-qps.tsv")
        if (row["workload"], row["build"], row["test"]) == (workload, "clang", test)
    )  # fmt: skip


def test_the_published_figures_satisfy_what_has_to_hold_of_ours() -> None:
    of = experiment("versions")
    rows = [row for row in table("9-absolute.tsv") if row["build"] == "clang"]
    for version in dict.fromkeys(row["version"] for row in rows):
        values: dict[str, dict[str, float | None]] = {}
        for row in rows:
            if row["version"] == version:
                values.setdefault(row["test"], {})[row["workload"]] = float(row["ops_sec"])
        verdicts = judged_pairs(of, values)
        assert verdicts.keys() == {
            "readww > fwdrangeww", "fwdrangeww >= revrangeww, within 10 %", "fillseq is faster than overwrite",
        }  # fmt: skip
        assert all(verdicts.values()), (version, verdicts)
        assert all(holds(of, "readww", values["readww"]).values())


def test_a_summary_of_several_reports_is_read_block_by_block(tmp_path: Path) -> None:
    """As the author's scripts make them: names of the reports first, the base twice, one version of two compilers."""
    summary = tmp_path / "summary.tsv"
    blocks = [
        "bm/6.29.gcc/report.tsv\nbm/6.29.clang/report.tsv\n",
        f"{HEAD}100\t1\tfillseq\td1\t6.29.5\n110\t1\tfillseq\td2\t6.29.5\n",
        f"{HEAD}50\t1\treadww\td1\t6.29.5\n60\t1\treadww\td2\t6.29.5\n50\t1\treadww\td1\t6.29.5\n",
    ]
    summary.write_text("\n".join(blocks))
    ((_, found),) = imported_view([summary]).relative
    assert found.columns == ("6.29.5 6.29.gcc", "6.29.5 6.29.clang", "6.29.5 summary")
    assert {row: found.cells[row]["6.29.5 6.29.clang"].ratio for row in found.rows} == {
        "fillseq": pytest.approx(1.1),
        "readww": pytest.approx(1.2),
    }


def test_repeats_have_an_interval_and_single_runs_none(tmp_path: Path) -> None:
    files = []
    for version, runs in (("7.8", (100, 101, 99)), ("8.0", (120, 121, 119)), ("9.0", (120,))):
        files.append(tmp_path / version / "report.tsv")
        files[-1].parent.mkdir()
        lines = [f"{qps}\t1\treadww\td{place}\t{version}\n" for place, qps in enumerate(runs)]
        files[-1].write_text(HEAD + "".join(lines))
    ((_, found),) = imported_view(files).relative
    of_test = found.cells["readww"]
    assert of_test["8.0"].mark == "+" and of_test["8.0"].low is not None and 1.1 < of_test["8.0"].low < 1.2
    assert (of_test["9.0"].mark, of_test["9.0"].low) == ("?", None)


def reported(capsys: pytest.CaptureFixture[str], file: Path, out: Path) -> tuple[int, str, str]:
    return main(["report", str(file), "-o", str(out)]), *capsys.readouterr()


def test_what_is_torn_is_left_out_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torn, out = tmp_path / "report.tsv", tmp_path / "page.html"
    rows = ["100\t1\treadww\td\t7.8", "NA\t1\treadww\td\t8.0", "110\t1\treadww\td\t9.0", "120\t1\trea"]
    torn.write_text(HEAD + "\n".join(rows))
    code, text, err = reported(capsys, torn, out)
    assert code == 1, err
    assert "1.10" in text and "8.0" not in text
    assert f"line 3 of {torn} has no number of operations a second" in err
    assert f"line 5 of {torn} has 3 of 5 columns: it is torn" in err
    page = out.read_text()
    assert "it is torn" in page and "ratios" not in err
    # Nothing is written over.
    code, _, err = reported(capsys, torn, out)
    assert (code, out.read_text()) == (2, page)
    assert "is there already" in err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a\tb\n1\t2\n", "lacks ops_sec, test, version"),
        (HEAD.replace("version", "githash"), "lacks version"),
        (HEAD, "holds no row"),
        ("", "holds no row of benchmark.sh's report: it is empty"),
        (HEAD + "100\t1\treadww\td\t7.8\n", "one version alone, 7.8"),
    ],
)
def test_what_is_no_report_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, says: str) -> None:
    wrong, out = tmp_path / "report.tsv", tmp_path / "page.html"
    wrong.write_text(text)
    code, printed, err = reported(capsys, wrong, out)
    assert (code, printed) == (2, "")
    assert says in err and "Traceback" not in err
    assert not out.exists()
