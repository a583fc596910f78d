"""Profiles and tables of other programs as runs of the store: equal in every value, or refused."""

from __future__ import annotations

import gzip
import random
import resource
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path

import pytest
from opentelemetry.proto.profiles.v1development import profiles_pb2

from folding.foreign import ForeignFrame, ForeignProfile, ForeignSample, encode_pprof, read_pprof
from ground.errors import MeasurementError, UsageError
from ground.results.store.database import Store
from ioflame.store.add import add_to_store
from ioflame.store.export import export_run
from tests.folding.recordings import record
from tests.ioflame.asked import refused


def foreign(profile: ForeignProfile) -> Counter[tuple[object, ...]]:
    """Every stack, labels and values of a profile."""
    sums: Counter[tuple[object, ...]] = Counter()
    for one in profile.samples:
        for kind, value in zip(profile.types, one.values, strict=True):
            sums[one.frames, one.labels, kind] += value
    return sums


def test_pprof_through_the_store_is_equal_in_every_value(tmp_path: Path) -> None:
    dice = random.Random(2)
    frames = [ForeignFrame(f"f{i}", "/usr/bin/x" * (i % 2), f"f{i}.go", i % 3) for i in range(9)]
    samples = [
        ForeignSample(
            tuple(dice.choices(frames, k=dice.randrange(0, 6))),
            (dice.randrange(100), dice.randrange(-5, 1 << 40)),
            tuple(sorted([("comm", dice.choice("ab")), ("bytes", dice.randrange(1, 9), "kb")], key=repr)),
        )
        for _ in range(300)
    ]
    profile = ForeignProfile([("samples", "count"), ("cpu", "nanoseconds")], 1_700_000_000_123_456_789, samples)
    again = read_pprof(through(tmp_path, profile, "out.pb.gz"))
    assert foreign(read_pprof((tmp_path / "in.pb.gz").read_bytes())) == foreign(profile)
    assert (again.types, again.time_ns, foreign(again)) == (profile.types, profile.time_ns, foreign(profile))
    store = Store(tmp_path / "store")
    for damaged in (b"\x1f\x8b\x08\x00", (tmp_path / "in.pb.gz").read_bytes()[:400], b"\x0a\x7f"):
        (tmp_path / "bad.pb.gz").write_bytes(damaged)
        with pytest.raises(MeasurementError):
            add_to_store(store, tmp_path / "bad.pb.gz")


def through(place: Path, profile: ForeignProfile, out: str) -> bytes:
    """The profile as the store gives it back in a file of that name."""
    (place / "in.pb.gz").write_bytes(encode_pprof(profile))
    store = Store(place / "store", create=True)
    (name,) = add_to_store(store, place / "in.pb.gz").new
    export_run(store, name, place / out)
    return (place / out).read_bytes()


def test_each_value_of_a_pprof_has_a_name_of_its_own(tmp_path: Path) -> None:
    """`go tool pprof` refuses two of one name, whatever their units."""
    types = [("cpu", "nanoseconds"), ("cpu", "count"), ("wall", "nanoseconds")]
    samples = [ForeignSample((ForeignFrame("f", "/usr/bin/x", "f.go", 1),), (5, 6, 7), ())]
    again = read_pprof(through(tmp_path, ForeignProfile(types, 1, samples), "out.pb.gz"))
    assert [name for name, _ in again.types] == ["cpu", "cpu (2)", "wall"]
    assert [sample.values for sample in again.samples] == [(5, 6, 7)]
    (tmp_path / "x.folded.gz").write_bytes(gzip.compress(b"main;f 3\n"))
    store = Store(tmp_path / "folded", create=True)
    (name,) = add_to_store(store, tmp_path / "x.folded.gz").new
    export_run(store, name, tmp_path / "folded.pb.gz")
    again = read_pprof((tmp_path / "folded.pb.gz").read_bytes())
    assert again.types == [("samples", "unstated")] and [sample.values for sample in again.samples] == [(3,)]


def test_a_name_in_folded_text_is_one_line_whatever_it_holds(tmp_path: Path) -> None:
    frames = tuple(ForeignFrame(name, "", "", 0) for name in ("a;b", "c 1000000\nd", "e\rf"))
    profile = ForeignProfile([("cpu", "nanoseconds")], 1, [ForeignSample(frames, (10,), (("comm", "x\ny"),))])
    assert through(tmp_path, profile, "out.folded") == b"x y;a:b;c 1000000 d;e f 10\n"


def test_a_profile_that_unpacks_to_what_no_profile_holds_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """768 MiB of zeros in 3.4 MiB: the memory that it takes is that of the budget."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    begin, piece = packer.compress(b"") + packer.flush(zlib.Z_FULL_FLUSH), packer.compress(bytes(64 << 20))
    (tmp_path / "bomb.pb.gz").write_bytes(begin + 12 * (piece + packer.flush(zlib.Z_FULL_FLUSH)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    told = refused(capsys, "store", "add", tmp_path / "s", tmp_path / "bomb.pb.gz", code=1)
    assert "MiB packed, unpacks to more than" in told
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 384 << 10
    # Small ones of equal samples alone pack better than any other.
    equal = ForeignProfile([("samples", "count")], 0, [ForeignSample((ForeignFrame("main"),), (1,))] * 10**4)
    (tmp_path / "equal.pb.gz").write_bytes(encode_pprof(equal))
    store = Store(tmp_path / "s")
    add_to_store(store, tmp_path / "equal.pb.gz")
    assert store.query("SELECT sum(weight)::BIGINT FROM samples").rows == [(10**4,)]


@pytest.mark.parametrize(
    ("values", "line", "words"),
    [((1 << 62, 1 << 62), 1, "the sum of cpu is 9,223,372,036,854,775,808"), ((1, 2), 1 << 31, "a line of main is")],
)
def test_a_number_that_no_profile_counts_to_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], values: tuple[int, int], line: int, words: str
) -> None:
    frames = (ForeignFrame("main", file="x.c", line=line),)
    samples = [ForeignSample(frames, (value,), (("comm", name),)) for name, value in zip("ab", values, strict=True)]
    (tmp_path / "in.pb.gz").write_bytes(encode_pprof(ForeignProfile([("cpu", "nanoseconds")], 0, samples)))
    told = refused(capsys, "store", "add", tmp_path / "s", tmp_path / "in.pb.gz", code=1)
    assert words in told and "nothing of it was added" in told and not Store(tmp_path / "s").query("FROM runs").rows


def otlp() -> profiles_pb2.ProfilesData:
    data = profiles_pb2.ProfilesData()
    tables = data.dictionary
    tables.string_table.extend(["", "cpu", "nanoseconds", "main", "work", "/usr/bin/x", "thread.name", "worker", "x.c"])
    tables.mapping_table.add()
    tables.mapping_table.add(filename_strindex=5)
    tables.function_table.add()
    tables.function_table.add(name_strindex=3)
    tables.function_table.add(name_strindex=4, filename_strindex=8)
    tables.location_table.add()
    tables.location_table.add(mapping_index=1).lines.add(function_index=1)
    place = tables.location_table.add(mapping_index=1)
    # work was inlined into main.
    place.lines.add(function_index=2, line=7)
    place.lines.add(function_index=1)
    tables.stack_table.add()
    tables.stack_table.add(location_indices=[1])
    tables.stack_table.add(location_indices=[2])
    tables.attribute_table.add()
    tables.attribute_table.add(key_strindex=6).value.string_value = "worker"
    tables.link_table.add()
    profile = data.resource_profiles.add().scope_profiles.add().profiles.add(time_unix_nano=1_700_000_000_000_000_000)
    profile.sample_type.type_strindex, profile.sample_type.unit_strindex = 1, 2
    profile.samples.add(stack_index=1, values=[30], attribute_indices=[1])
    profile.samples.add(stack_index=2, values=[50, 20])
    profile.samples.add(stack_index=2, timestamps_unix_nano=[1, 2, 3])
    return data


def test_otlp_of_the_reference_classes_reads_to_the_same_totals(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", create=True)
    (tmp_path / "p.otlp").write_bytes(otlp().SerializeToString())
    add_to_store(store, tmp_path / "p.otlp")
    told = """SELECT event, unit, pool, len(frames), sum(weight)::BIGINT FROM samples
              JOIN stacks USING (stack_hi, stack_lo) GROUP BY ALL ORDER BY ALL"""
    assert store.query(told).rows == [("cpu", "nanoseconds", "", 2, 73), ("cpu", "nanoseconds", "worker", 1, 30)]
    assert store.query("SELECT name, object, file, line FROM frames ORDER BY ALL").rows == [
        ("main", "/usr/bin/x", "", None), ("work", "/usr/bin/x", "x.c", 7),
    ]  # fmt: skip
    # Field 15 of the profile: of a version of the format that is not known.
    (tmp_path / "q.otlp").write_bytes(otlp().SerializeToString() + b"\x7a\x01x")
    with pytest.raises(MeasurementError, match="of fields that are not known"):
        add_to_store(store, tmp_path / "q.otlp")


@pytest.mark.long
@pytest.mark.needs("perf")
def test_a_recording_of_perf_has_the_sums_of_perf_script(tmp_path: Path) -> None:
    options = ["-e", "cpu-clock,page-faults", "-F", "999", "-g"]
    data = record(tmp_path / "perf.data", options, sys.executable, "-c", "sum(range(2 * 10**7))")
    argv = ["perf", "script", "-i", str(data), "-G", "-F", "comm,event,period"]
    told = subprocess.run(argv, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
    found = [line.split() for line in told.splitlines()]
    events = {"cpu-clock": "ns", "page-faults": "events"}
    store = Store(tmp_path / "store", create=True)
    with pytest.raises(UsageError, match=r"several events[\s\S]*--set event=NAME"):
        add_to_store(store, data)
    for event, unit in events.items():
        counted = [int(row[-2]) for row in found if row[-1] == f"{event}:"]
        (name,) = add_to_store(store, data, {"event": event, "host": "h1"}).new
        summed = "SELECT event, unit, sum(weight)::BIGINT, sum(samples)::BIGINT FROM samples WHERE run = ? GROUP BY ALL"
        (row,) = store.query(summed, [name]).rows
        assert row == (event, unit, sum(counted), len(counted)) and len(counted) > 0
    assert store.query("SELECT 1 FROM frames WHERE kernel").rows and store.check() == []
    # The same of the same host is there already.
    assert add_to_store(store, data, {"event": "cpu-clock", "host": "h1"}).new == []


def test_what_cannot_be_said_of_a_profile_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.folded").write_text("main;work 3\n")
    said = [*(f"probability={value}" for value in ("2", "0", "-1", "nan")), "threads=1.5", "threads=0", "qps=inf"]
    for one in said:
        told = refused(capsys, "store", "add", tmp_path / "s", tmp_path / "a.folded", "--set", one)
        assert f"--set {one}: expected" in told
    assert not Store(tmp_path / "s").query("FROM runs").rows


def test_rows_of_benchmark_sh_are_runs(tmp_path: Path) -> None:
    rows = ["ops_sec usec_op p99 test version", "1000 10.5 NA readrandom.t4 10.5.1", "900 11 50 readrandom.t4 10.6.2"]
    table = "# a note\n" + "".join(row.replace(" ", "\t") + "\n" for row in rows)
    (tmp_path / "report.tsv").write_text(table)
    wide = "workload\tbuild\ttest\t6.29.5\t10.6.2\nbyrx\tgcc\tfillseq\t1.00\t0.61\niobuf\tgcc\tfillseq\t1.00\t\n"
    (tmp_path / "relative.tsv").write_text(wide)
    (tmp_path / "other.tsv").write_text("a\tb\n1\t2\n")
    store = Store(tmp_path / "store", create=True)
    add_to_store(store, tmp_path / "report.tsv", {"host": "arm"})
    ratios = store.query("SELECT test, host, label, ratio FROM relative_qps").rows
    assert ratios == [
        ("readrandom t4", "arm", label, pytest.approx(q)) for label, q in (("10.5.1", 1), ("10.6.2", 0.9))
    ]
    metrics = store.query("SELECT metric, count(*) FROM figures GROUP BY ALL ORDER BY ALL").rows
    assert metrics == [("qps", 2), ("report.p99", 1), ("rx.lat", 2)]
    add_to_store(store, tmp_path / "relative.tsv")
    cells = "SELECT test, label, value FROM runs JOIN figures USING (run) WHERE metric = 'qps.relative' ORDER BY ALL"
    assert store.query(cells).rows == [
        ("byrx fillseq gcc", "10.6.2", 0.61), ("byrx fillseq gcc", "6.29.5", 1.0), ("iobuf fillseq gcc", "6.29.5", 1.0),
    ]  # fmt: skip
    with pytest.raises(UsageError, match="is no header of"):
        add_to_store(store, tmp_path / "other.tsv")
    (tmp_path / "torn.tsv").write_text(table + "800\t12")
    assert [line.split(" of ")[0] for line in add_to_store(store, tmp_path / "torn.tsv").left_out] == ["line 5"]
