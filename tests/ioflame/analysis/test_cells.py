"""Published tables through the experiments' own columns and proofs: they meet what the experiments expect."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest

from ground.errors import UsageError
from ioflame import cli
from ioflame.analysis.cells import PROOFS, judge, model_ratio, spread_of, summary_of
from ioflame.measure.builds import named_builds
from tests.places import DATA, ROOT
from workloads.cells import Cells, Column
from workloads.engines.rocksdb.engine import RocksDB
from workloads.experiment import own_definitions, read_cells


def table(name: str) -> list[dict[str, str]]:
    lines = [line for line in (DATA / name).read_text().splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines, delimiter="\t"))


def experiment(name: str) -> Cells:
    return read_cells(name, RocksDB(own_definitions(name)), tuple(PROOFS))


def holds(of: Cells, column: str, values: dict[str, float | None]) -> dict[str, bool | None]:
    """The proofs about one column of published values by cell."""
    found = {}
    for hold in of.holds:
        cells = hold.cells or [cell.name for cell in of.cells]
        if hold.column == column and not hold.other:
            found[hold.what] = judge(hold.proof, {c: values[c] for c in cells}, {}, hold.low, hold.high).holds
    return found


def judged_pairs(of: Cells, values: dict[str, dict[str, float | None]]) -> dict[str, bool | None]:
    """The proofs that compare two columns, of published values by column and cell."""
    return {
        hold.what: judge(hold.proof, values[hold.column], values[hold.other], hold.low, hold.high).holds
        for hold in of.holds
        if hold.other
    }


def test_the_published_streams_satisfy_what_has_to_hold_of_ours() -> None:
    of = experiment("trivial-move")
    every = table("18-streams.tsv")
    rows = {f"asc.{row['streams']}": row for row in every if row["workload"] == "asc.N"}
    # Theirs of each kind; of two streams by our client, the same as by theirs.
    others = {row["workload"]: row for row in every if row["workload"] in ("desc.1", "asc.b asc.a")}
    rows_of_cells = {**rows, **others, "asc.2, ioflame": rows["asc.2"]}
    published = {cell.name: cell.published for cell in of.cells}
    for column in ("move_ratio", "w_amp"):
        values: dict[str, float | None] = {name: float(row[column]) for name, row in rows_of_cells.items()}
        assert {name: row[column] for name, row in published.items()} == {name: values[name] for name in published}
        verdicts = holds(of, column, values)
        assert verdicts and all(verdicts.values()), verdicts
    # Every stream in the published table, not only those we run: in order.
    ordered = [float(row["w_amp"]) for row in rows.values()]
    assert ordered == sorted(ordered)
    # Turned round it does not hold.
    backwards = dict(zip(rows, reversed(ordered), strict=True))
    assert False in holds(of, "w_amp", {**values, **backwards}).values()


def test_the_published_levels_satisfy_what_has_to_hold_of_ours() -> None:
    of = experiment("trivial-move-levels")
    columns: dict[str, dict[str, float | None]] = {column.name: {} for column in of.columns}
    for row in table("18-trivial-move-levels.tsv"):
        kind = "dynamic" if row["dynamic"] == "on" else "static"
        cell = f"{kind}, {row['compression'].split()[0]}"
        names = ["first", "second", "third"]
        first = 4 if kind == "dynamic" else 1
        if row["level"] == "L0":
            continue
        for place in names if row["level"] == "others" else [names[int(row["level"][1:]) - first]]:
            columns[f"{place} written"][cell] = float(row["write"] == "yes")
            columns[f"{place} moved"][cell] = float(row["move"] == "yes")
    for hold in of.holds:
        values = {cell: columns[hold.column][cell] for cell in hold.cells}
        assert judge(hold.proof, values, {}, hold.low, hold.high).holds, hold.what
    # Every cell of the published table is looked at.
    assert sum(len(hold.cells) for hold in of.holds) == 3 * 2 * 4


def test_published_write_amplification_counts_flushes_once_and_fits_the_model() -> None:
    of = experiment("compression")
    rows = {row["l0_l1_l2"]: row for row in table("15-compression.tsv") if row["test"] == "overwrite"}
    columns = {column.name: column for column in of.columns}
    once = {}
    for name, row in rows.items():
        figures = {
            "overwrite_all.events.written_gb": float(row["compact_gb"]),
            "overwrite_all.ingest_gb": float(row["ingest_gb"]),
            "overwrite_all.c_csecs": float(row["c_csecs"]),
            # The step ran 3600 s.
            "overwrite_all.operations": float(row["wps"]) * 3600,
        }

        def value(column: str, figures: dict[str, float] = figures) -> float:
            found = columns[column].value(figures)
            assert found is not None
            return found

        once[name] = value("w_amp/ingest")
        assert once[name] == pytest.approx(float(row["w_amp_once"]), abs=0.006)
        cell = next(cell for cell in of.cells if cell.name == name)
        for column in ("w_amp/ingest", "CPU us/write", "CPU s/GiB"):
            assert value(column) == pytest.approx(cell.published[column], rel=0.002), (name, column)
    model = next(hold for hold in of.holds if hold.proof == "model")
    assert model_ratio(7, model.low, model.high) == pytest.approx(1.35, abs=0.005)
    assert judge("model", dict(once), {"none": 7.0, "lz4": 7.0}, model.low, model.high).holds
    assert not judge("model", {"none": 2.0, "lz4": 1.0}, {"none": 7.0, "lz4": 7.0}, model.low, model.high).holds


def test_the_published_micro_benchmarks_have_the_order_that_hardware_crc_gives() -> None:
    of = experiment("micro")
    rows = {row["cc"]: row for row in table("16-microbench.tsv")}
    names = {"crc32c": "crc32c", "xxhash": "xxhash", "xxhash64": "xxh64", "xxh3": "xxh3", "compress": "comp",
             "uncompress": "uncomp"}  # fmt: skip
    for compiler in ("gcc", "clang14", "clang15"):
        verdicts = holds(of, "MiB/s", {cell: float(rows[compiler][name]) for cell, name in names.items()})
        assert len(verdicts) == 3 and all(verdicts.values()), compiler
    # clang 10 to 13 put crc32c below xxh64: the order is of gcc or a later clang.
    old = holds(of, "MiB/s", {cell: float(rows["clang12"][name]) for cell, name in names.items()})
    assert list(old.values()) == [False, True, True]


def test_a_value_that_is_missing_is_not_judged_and_nothing_by_nothing_is_infinite() -> None:
    ratio = Column(name="a/b", about="", part=["a"], per=["b"])
    assert ratio.value({"a": 1.0}) is None
    assert ratio.value({"a": 1.0, "b": 0.0}) == math.inf
    sums = Column(name="", about="", part=["a", "-b"], per=["c", "b"], times=100.0)
    assert sums.value({"a": 6.0, "b": 2.0, "c": 6.0}) == 50.0
    against = Column(name="", about="", part=["users"], per=["lat"], times=1e6, off="iops")
    assert against.value({"users": 2.0, "lat": 100.0, "iops": 16_000.0}) == pytest.approx(25.0)
    assert against.value({"users": 2.0, "lat": 100.0}) is None
    assert judge("rises", {"x": 1.0, "y": None}, {}, 0.0, 0.0).holds is None
    # Of each cell alone: one that was measured is enough to show that it does not hold.
    assert judge("within", {"x": 3.0, "y": None}, {}, 0.0, 2.0).holds is False
    assert judge("within", {"x": 1.0, "y": None}, {}, 0.0, 2.0).holds is None
    assert judge("above", {"x": 1.0, "y": None}, {"x": 2.0, "y": 1.0}, 0.0, 0.0).holds is False
    assert judge("agrees", {"x": math.inf}, {"x": math.inf}, 0.0, 0.1).holds is True
    some = summary_of([5.0, 1.0, 2.0, 4.0, 3.0])
    assert some is not None
    assert (some.low, some.median, some.high, some.runs) == (2.0, 3.0, 4.0, 5)
    assert summary_of([1.0, 2.0]) is not None and summary_of([]) is None


def test_a_figure_that_varies_lies_within_by_its_interval() -> None:
    """3.5 to 4.5: a single 4.51 says nothing; three that are all above do."""
    values = {"a": 4.51}
    single = judge("lies within", values, {}, 3.5, 4.5, {"a": None})
    assert single.holds is None and "without an interval" in single.why
    assert judge("lies within", {"a": 4.2}, {}, 3.5, 4.5, {"a": None}).holds is True
    apart = judge("lies within", {"a": 5.0}, {}, 3.5, 4.5, {"a": spread_of([4.98, 5.0, 5.02], None)})
    assert apart.holds is False and "5 [" in apart.why
    assert judge("within", values, {}, 3.5, 4.5, {"a": None}).holds is False
    # What a proof saw is listed without powers of ten.
    seen = judge("above", {"byrx, A": 142_710.4, "iodir, A": None}, {"byrx, A": 999.9, "iodir, A": 0.01234}, 0.0, 0.0)
    assert seen.why.endswith("byrx, A 142,710; iodir, A not measured, against byrx, A 999.9; iodir, A 0.01234")


def test_what_is_expected_is_judged_by_the_interval_of_the_ratio_or_not_at_all() -> None:
    def at_least_3(ours: list[float], seconds: tuple[float, float] | None = None) -> bool | None:
        theirs = spread_of([100.0], (95.0, 105.0)) if seconds else spread_of([100.0, 103.0, 97.0][: len(ours)], None)
        values: dict[str, float | None] = {"ours": ours[0], "theirs": 100.0}
        spreads = {"ours": spread_of(ours, seconds), "theirs": theirs}
        return judge("ratio", values, {}, 3.0, math.inf, spreads).holds

    # Of a single value without an interval 2.92 is no proof that it is not 3.
    assert judge("ratio", {"a": 292.0, "b": 100.0}, {}, 3.0, math.inf).holds is False
    assert at_least_3([292.0]) is None
    assert at_least_3([310.0]) is True
    # By the seconds of one run, and by the runs: an interval that holds the bound says nothing.
    assert at_least_3([292.0], (280.0, 304.0)) is None
    assert at_least_3([310.0], (280.0, 340.0)) is None
    assert at_least_3([200.0], (190.0, 210.0)) is False
    assert at_least_3([400.0], (390.0, 410.0)) is True
    assert at_least_3([292.0, 310.0, 275.0]) is None
    assert at_least_3([200.0, 210.0, 190.0]) is False
    # Both pairs have to rise, and one does not: 400 to 200 falls.
    values: dict[str, float | None] = {"a": 100.0, "b": 400.0, "c": 200.0}
    spreads = {cell: spread_of([value], (value * 0.9, value * 1.1)) for cell, value in values.items() if value}
    rises = judge("rises", values, {}, 0.0, 0.0, spreads)
    assert rises.holds is False and "ratio 0.5 [0.4" in rises.why
    # Of each cell alone it is as measured: a count has no interval.
    assert judge("within", {"a": 2.0}, {}, 1.0, 1.0, {"a": None}).holds is False
    assert judge("rises", {"a": 0.0, "b": 0.0}, {}, 0.0, 0.0).holds is True


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('proof = "rises"', 'proof = "soars"'), "proof 'soars' is not one of within, rises"),
        (('column = "w_amp"', 'column = "wamp"'), "column 'wamp' is not one of"),
        (('name = "asc.2"', 'name = "asc.1"'), "cell 'asc.1' is not a name of its own"),
        (("[layout]", "[outlay]"), "has outlay; an experiment has"),
        (("[layout]", '[layout]\ndatabase = "shared"'), "a shared database has one tree"),
        (("num_keys = 500_000", 'num_keys = 500_000\ncells = ["asc.3"]'), "cell 'asc.3' is not one of asc.1"),
        (('name = "asc.2"', 'name = "asc/2"'), "cell 'asc/2' is not a name for files"),
    ],
)
def test_a_wrong_file_is_refused_with_what_is_wrong(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    shipped = ROOT / "workloads" / "experiments" / "trivial-move.toml"
    own = tmp_path / "own.toml"
    own.write_text(shipped.read_text().replace(*change, 1))
    with pytest.raises(UsageError, match=says):
        read_cells(str(own), RocksDB(own_definitions(str(own))), tuple(PROOFS))


def test_factors_are_combined_and_a_scale_has_its_own_cells_proofs_and_sizes() -> None:
    moves = experiment("trivial-move")
    two = next(cell for cell in moves.cells if cell.name == "asc.2")
    # Sizes shrink with the data, down to a least.
    full, smaller = moves.shape(two, 100_000_000), moves.shape(two, 2_000_000)
    assert (full.tree["write_buffer_size"], smaller.tree["write_buffer_size"]) == (16 << 20, (16 << 20) // 50)
    assert moves.shape(two, 10_000).tree["write_buffer_size"] == 256 << 10
    assert (full.tree["keys_per_prefix"], smaller.tree["keys_per_prefix"]) == ("50000000", "1000000")
    assert full != moves.shape(moves.cells[0], 100_000_000)  # other streams are another database
    of = experiment("block-cache")
    assert len(of.cells) == 3 * 2 * 3
    one = next(cell for cell in of.cells if cell.name == "hyper clock, 1 shard, 8 threads")
    assert (one.configuration, one.threads, one.since) == ("byrx", 8, "7.7")
    assert one.flags == {"cache_type": "hyper_clock_cache", "cache_numshardbits": 0}
    small = experiment("wiki").at("smoke")
    assert [cell.name for cell in small.cells] == ["8K", "4K"]
    assert [row.name for row in small.table_rows()][:3] == ["8K: bulkload", "4K: bulkload", "8K: overwrite"]
    named = {name.partition(":")[0] for hold in small.holds for name in hold.cells}
    assert named == {"8K", "4K"} and len(small.holds) < len(experiment("wiki").holds)
    row = small.table_rows()[1]
    column = Column(name="", about="", part=["own.qps", "-own.iops"], per=["load.qps"]).at(row.step)
    assert (column.part, column.per) == (["bulkload.qps", "-bulkload.iops"], ["load.qps"])


def test_several_builds_are_run_with_the_base_first_and_last_and_every_proof_is_asked_of_each() -> None:
    of = experiment("versions").of_builds(["old", "new", "newer"])
    names = [run.cell.name for run in of.runs(1)]
    assert names[:4] == ["byrx, old", "byrx, new", "byrx, newer", "byrx, old"]
    assert [name.partition(",")[0] for name in names] == ["byrx"] * 4 + ["iobuf"] * 4 + ["iodir"] * 4
    # Each run of a cell has a number of its own, whatever the round; the next round begins with another cell.
    runs = list(of.runs(2))
    assert [run.turn for run in runs if run.cell.name == "byrx, old"] == [1, 2, 3, 4]
    assert [run.turn for run in runs if run.cell.name == "byrx, new"] == [1, 2]
    assert runs[12].cell.name == "iobuf, old" and runs[12].round == 2
    micro = experiment("micro")
    order = [[run.cell.name for run in micro.runs(2) if run.turn == turn] for turn in (1, 2)]
    assert order[0][:1] != order[1][:1] and order[1] == [*order[0][1:], order[0][0]]
    faster = [hold for hold in of.holds if "faster with O_DIRECT" in hold.what or "than with O_DIRECT" in hold.what]
    assert [hold.cells for hold in faster] == [[f"byrx, {b}", f"iodir, {b}"] for b in ("old", "new", "newer")]
    assert experiment("versions").of_builds([""]).builds == []


def test_an_experiment_may_be_like_another(tmp_path: Path) -> None:
    versions, compilers = experiment("versions"), experiment("compilers")
    assert compilers.steps == versions.steps and compilers.columns == versions.columns
    assert [cell.name for cell in compilers.cells] == ["byrx"] and "version" in compilers.same
    own = tmp_path / "own.toml"
    own.write_text('like = "compilers"\nabout = "mine"\n')
    assert (experiment(str(own)).about, experiment(str(own)).cells) == ("mine", compilers.cells)
    own.write_text(f'like = "{own}"\n')
    with pytest.raises(UsageError, match="is no other experiment"):
        experiment(str(own))


@pytest.mark.long
@pytest.mark.needs("db_bench")
def test_builds_have_names_and_no_two_the_same(tmp_path: Path) -> None:
    engine = RocksDB()
    again = tmp_path / "again"
    again.write_text('#!/bin/sh\nexec db_bench "$@"\n')
    again.chmod(0o755)
    assert list(named_builds(engine, f"A=db_bench,{again}", None)) == ["A", engine.inspect(again).version]
    assert list(named_builds(engine, "db_bench", None)) == list(named_builds(engine, None, None))
    assert named_builds(engine, f"A={again}", None)["A"].path == again
    with pytest.raises(UsageError, match="two builds are called A"):
        named_builds(engine, f"A=db_bench,A={again}", None)
    with pytest.raises(UsageError, match="does not exist"):
        named_builds(engine, "A=db_bench,B=/no/such", None)


def test_published_leveldb_figures_are_beside_ours_and_meet_what_has_to_hold() -> None:
    of = experiment("leveldb")
    assert (of.builds, [cell.engine for cell in of.cells]) == (["leveldb", "rocksdb"], ["leveldb", "rocksdb"] * 2)
    assert [of.shape(cell, 1000).num_keys for cell in of.cells] == [1000, 1000, 4000, 4000]
    # The base is run first and last of each size.
    assert [run.cell.engine for run in of.runs(1)] == ["leveldb", "rocksdb", "leveldb"] * 2
    rates = [column.name for column in of.columns if column.metric == "qps"]
    columns = {"leveldb": "leveldb_ops", "rocksdb": "rocksdb_nostats_ops"}

    def published(keys: str, engine: str) -> dict[str, float]:
        rows = [row for row in table("13-leveldb.tsv") if row["keys"] == keys]
        return dict(zip(rates, (float(row[columns[engine]]) for row in rows), strict=True))

    for cell in of.cells:
        assert cell.published == published({"N keys": "1M", "4N keys": "10M"}[cell.of], cell.engine)

    def verdicts(small: str, large: str, column: str) -> list[bool | None]:
        sizes = {"N keys": small, "4N keys": large}
        values: dict[str, float | None] = {c.name: published(sizes[c.of], c.engine)[column] for c in of.cells}
        return list(holds(of, column, values).values())

    assert verdicts("1M", "10M", "fillseq") == [True]
    assert verdicts("10M", "100M", "overwrite 1t") == [True] * 4
    # From 1M to 10M the ratio went from 7.4 to 7.0: the rest holds there, too.
    assert verdicts("1M", "10M", "overwrite 1t") == [True, True, False, True]


@pytest.mark.long
@pytest.mark.needs("db_bench")
def test_a_cell_with_a_client_of_its_own_is_driven_by_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["explain", "trivial-move", "--scale=smoke", f"--db-dir={tmp_path}", f"--out={tmp_path}"]
    assert cli.main(argv) == 0
    commands = dict(block.split(": load: ", 1) for block in capsys.readouterr().out.split("\n\n# ")[1:])
    programs = {cell: Path(words.splitlines()[1].removesuffix(" \\")).name for cell, words in commands.items()}
    by_ours = {"desc.1": "descending", "asc.b asc.a": "one_after_another", "asc.2, ioflame": "interleaved"}
    assert {cell for cell, program in programs.items() if program == "ioflame-client"} == by_ours.keys()
    assert set(programs.values()) == {"db_bench", "ioflame-client"}
    assert all(f"--order={order} " in commands[cell] for cell, order in by_ours.items())
    # All else is as for db_bench, which takes those flags for the same options.
    assert all("--write_buffer_size=262144" in words for words in commands.values())
