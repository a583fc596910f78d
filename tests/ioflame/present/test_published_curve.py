"""Versions beside what was published of them, and the sentence on their compilers."""

from __future__ import annotations

import pytest

from ground.results.compilers import compiler_name, compilers_apart
from ground.results.differences import Cell, RelativeTable
from ioflame.analysis.cells import PROOFS
from ioflame.present.published_curve import beside_published, judged_change, published_ratios
from workloads.curves import Curve
from workloads.engines.rocksdb.engine import RocksDB
from workloads.experiment import read_cells

# As the jars have them: the newest is the engine's, the others are of libraries that are linked in.
GCC_7 = "GCC: (GNU) 7.3.1 20180303 (Red Hat 7.3.1-5), GCC: (GNU) 4.8.5 20150623 (Red Hat 4.8.5-44)"
GCC_11 = "GCC: (GNU) 4.8.5 20150623 (Red Hat 4.8.5-44), GCC: (GNU) 11.2.1 20220127 (Red Hat 11.2.1-9)"


def test_a_change_of_the_compiler_is_said_beside_a_change_of_the_version() -> None:
    assert compiler_name(GCC_7) == "gcc 7.3.1" and compiler_name(GCC_11) == "gcc 11.2.1"
    assert compiler_name("Debian clang version 14.0.6") == "clang 14.0.6"
    assert compiler_name("not recorded") == "not recorded"
    said = compilers_apart({"10.5.1": ("10.5.1", GCC_11), "10.4.2": ("10.4.2", GCC_7)})
    assert said == "10.5.1: gcc 11.2.1; 10.4.2: gcc 7.3.1. A difference may be the compiler's."
    assert compilers_apart({"a": ("9.10.0", GCC_7), "b": ("10.4.2", GCC_7)}) == ""
    # One version by two compilers: that is what is compared.
    assert compilers_apart({"gcc": ("10.4.2", GCC_7), "new": ("10.4.2", GCC_11)}) == ""


@pytest.mark.parametrize(
    ("low", "high", "published", "said"),
    [
        (1.10, 1.30, 1.18, "agrees"),
        (0.90, 1.30, 1.18, "cannot be decided"),
        (0.97, 1.04, 1.01, "agrees"),
        (0.80, 1.20, 1.00, "cannot be decided"),
        (0.90, 1.05, 1.18, "differs"),
        (0.98, 1.05, 1.06, "cannot be decided"),
        (1.03, 1.20, 1.02, "agrees"),
        (0.60, 0.99, 1.005, "cannot be decided"),
        (None, None, 1.18, "cannot be decided"),
    ],
)
def test_what_agrees_is_told_by_the_interval(
    low: float | None, high: float | None, published: float, said: str
) -> None:
    assert judged_change(Cell(1.0, "?", low, high), published) == said


def test_a_version_stands_beside_its_own_or_a_patch_of_its_minor_version() -> None:
    curve = Curve(source="a post", relative={"byrx": {"readww": {"6.29.5": 1.0, "7.10.2": 1.23, "10.5.5": 1.17}}})
    assert curve.at("byrx", "readww", "10.5.1") == ("10.5.5", 1.17)
    assert curve.at("byrx", "readww", "9.10.0") is None and curve.at("iodir", "readww", "7.10.2") is None
    cells = {"readww": {"10.5.1": Cell(0.97, "?", 0.90, 1.01), "9.10.0": Cell(0.9, "?"), "old": Cell(1.0, "")}}
    table = RelativeTable("qps", "byrx", "old", ("readww",), ("old", "9.10.0", "10.5.1"), cells)
    versions = {"old": "7.10.2", "9.10.0": "9.10.0", "10.5.1": "10.5.1"}
    summary, found = beside_published(curve, [("byrx", table)], versions)
    # Over the base that was measured here; of a version that nobody published its neighbours are beside it.
    assert found.rows == [
        ["readww", "9.10.0", "0.90", "", "1.00, 0.95", "7.10.2, 10.5.5", "not published"],
        ["readww", "10.5.1", "0.97", "[0.90, 1.01]", "0.95", "10.5.5", "cannot be decided"],
    ]
    assert summary.cells("page")[0] == ["test", "agrees", "differs", "cannot be decided", "not published"]
    assert summary.rows == [["readww", "", "", "10.5.1", "9.10.0"], ["all 2", "0", "0", "1", "1"]]
    assert published_ratios(curve, "byrx", table, versions) == {"readww": {"10.5.1": pytest.approx(1.17 / 1.23)}}
    # Where none of the builds was published there is no mark to explain.
    assert published_ratios(curve, "byrx", table, {**versions, "10.5.1": "10.4.2"}) == {}
    assert beside_published(None, [("byrx", table)], {}) == [] and published_ratios(None, "byrx", table, {}) == {}


def test_a_base_that_nobody_published_has_nothing_beside_it() -> None:
    curve = Curve(source="a post", relative={"byrx": {"readww": {"6.29.5": 1.0, "7.10.2": 1.23}}})
    assert curve.around("byrx", "readww", "5.0") == [("6.29.5", 1.0)]
    assert curve.around("byrx", "readww", "10.0") == [("7.10.2", 1.23)] and curve.around("iobuf", "x", "7.0") == []
    cells = {"readww": {"5.0": Cell(1.0, ""), "7.10.2": Cell(1.2, "+", 1.1, 1.3)}}
    table = RelativeTable("qps", "byrx", "5.0", ("readww",), ("5.0", "7.10.2"), cells)
    assert beside_published(curve, [("byrx", table)], {}) == [] and published_ratios(curve, "byrx", table, {}) == {}


def test_the_experiment_has_the_published_curve_of_its_own_columns() -> None:
    found = read_cells("versions", RocksDB(client="ioflame"), tuple(PROOFS))
    assert found.curve is not None
    columns = {column.name for column in found.columns if column.metric == "qps"}
    assert found.curve.relative["byrx"].keys() <= columns
    (byrx,) = found.at("byrx").cells
    # What was published beside a writer, and Gets without one; of several rounds, for an interval.
    assert byrx.name == "byrx" and {"readrandom", "readwhilewriting", "overwrite"} <= set(byrx.steps)
    assert found.scale["byrx"].rounds > 2
    assert found.curve.at("byrx", "readww", "8.0.0") == ("8.0.0", 1.29)
