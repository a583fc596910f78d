"""Our own client, on engines in temporary directories: counts, roles, orders, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ground.errors import HostError, UsageError
from ground.results.writes import columns
from ground.system.binaries import built_binary
from tests.e2e.commands import script
from tests.until import until
from workloads.our_client import result_of
from workloads.registry import engine_named
from workloads.scales import DatabaseShape, Sizing
from workloads.steps import StepParameters

ENGINES = ("rocksdb", "leveldb", "lmdb")
KEYS = 10_007
# Small enough that each engine compacts, or splits pages, within a second.
SIZES = ("--key_size=20", "--value_size=100", "--threads=1", "--compression_type=none", "--write_buffer_size=262144")


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    errors: str

    def role(self, benchmark: str, name: str = "readers") -> Any:
        return next(line for line in self.closing() if line["benchmark"] == benchmark)["roles"][name]

    def closing(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines() if line.startswith('{"benchmark"')]


def argv_of(engine: str, directory: Path, benchmarks: str, *flags: str) -> list[str]:
    has_files = engine in ("rocksdb", "leveldb")
    sizes = [flag for flag in SIZES if has_files or not re.match("--(comp|write)", flag)]
    given = {word.partition("=")[0]: word for word in (*sizes, f"--num={KEYS}", *flags)}
    program = str(built_binary("ioflame-client"))
    return [program, f"--engine={engine}", f"--db={directory}", f"--benchmarks={benchmarks}", *given.values()]


def client(engine: str, directory: Path, benchmarks: str, *flags: str, prefix: tuple[str, ...] = ()) -> Ended:
    argv = [*prefix, *argv_of(engine, directory, benchmarks, *flags)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return Ended(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def database(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of KEYS keys; nobody changes which keys it holds."""
    place = tmp_path_factory.mktemp(engine) / "db"
    done = client(engine, place, "fillseq,flush", "--order=shuffled")
    assert done.code == 0, done.errors
    assert done.role("fillseq", "writers")["by_kind"] == {"put": KEYS}
    return place


@pytest.mark.long
def test_every_kind_of_operation_is_counted_and_finds_what_is_there(engine: str, database: Path) -> None:
    """Of 7,919 numbers from 5,000 keys on, those below KEYS are there: a prime number, and a part that is known."""
    beyond = f"--num={KEYS * 2}"
    flags = ("--use_existing_db=true", "--key_distribution=in_order", "--order=descending", beyond, "--reads=15013")
    done = client(
        engine, database, "readrandom,multireadrandom,seekrandom", *flags, "--batch_size=10", "--seek_nexts=3"
    )
    assert done.code == 0, done.errors
    there = 15_013 - KEYS
    for benchmark, kind in (("readrandom", "get"), ("multireadrandom", "multiget"), ("seekrandom", "seek")):
        role = done.role(benchmark)
        assert (role["by_kind"], role["reads"], role["found"]) == ({kind: 15_013}, 15_013, there), benchmark
    assert done.role("readrandom")["bytes"] == done.role("multireadrandom")["bytes"] == there * 100
    # A seek beyond the last key looks at nothing; the last two keys have less than two after them.
    assert done.role("seekrandom")["scanned"] == there * 3 - (2 + 1)
    result = result_of(done.out, "readrandom")
    assert result is not None and (result.operations, result.found, result.reads) == (15_013, there, 15_013)
    back = client(engine, database, "seekrandom", "--use_existing_db=true", "--key_distribution=in_order",
                  "--reads=997", "--seek_nexts=4", "--reverse_iterator=true")  # fmt: skip
    assert back.role("seekrandom")["scanned"] == 997 * 4 - (3 + 2 + 1)


@pytest.mark.long
def test_several_threads_share_a_load_and_count_their_own_reads(engine: str, tmp_path: Path) -> None:
    place = tmp_path / "db"
    done = client(engine, place, "fillseq,flush,readrandom,multireadrandom", "--threads=3", "--reads=1009",
                  "--key_distribution=zipfian", "--batch_size=7", "--order=interleaved", "--streams=5")  # fmt: skip
    assert done.code == 0, done.errors
    assert done.role("fillseq", "writers")["operations"] == KEYS
    assert [done.role(b)["found"] for b in ("readrandom", "multireadrandom")] == [3 * 1009, 3 * 1009]
    gone = client(engine, place, "deleteseq,readrandom", "--use_existing_db=true", "--reads=211")
    assert gone.role("deleteseq", "writers")["by_kind"] == {"delete": KEYS}
    assert gone.role("readrandom")["found"] == 0


@pytest.mark.long
def test_readers_and_writers_are_counted_apart_and_held_to_rates(engine: str, database: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.csv"
    done = client(engine, database, "readwhilewriting", "--use_existing_db=true", "--reads=1201", "--writers=2",
                  "--benchmark_read_rate_limit=1000", f"--benchmark_write_rate_limit={500 * 120}",
                  f"--report_file={report}")  # fmt: skip
    assert done.code == 0, done.errors
    (line,) = done.closing()
    readers, writers = line["roles"]["readers"], line["roles"]["writers"]
    assert (readers["by_kind"], readers["found"], set(writers["by_kind"])) == ({"get": 1201}, 1201, {"put"})
    # The last of 1,201 may not begin before 1.2 s have passed, and writers not before their moment.
    assert line["seconds"] >= 1.2
    assert 2 <= writers["operations"] <= 500 * line["seconds"] + 2
    if engine != "lmdb":  # which has no workload with a writer
        totals = engine_named(engine, client="ioflame").thread_totals(done.out)
        assert totals == {0: [(line["seconds"], writers["operations"])], 1: [(line["seconds"], 1201)]}
    header, first = report.read_text(encoding="utf-8").splitlines()[:2]
    assert header == "second,queries,readers,writers"
    second, queries, read, written = map(int, first.split(","))
    assert (second, queries) == (1, read) and written > 0 and 0 < read <= 1201
    assert engine_named(engine, client="ioflame").parse_report(report.read_text(encoding="utf-8"))[0] == queries


@pytest.mark.long
def test_a_mix_has_its_shares(engine: str, database: Path) -> None:
    ratios = [f"--mix_{kind}_ratio={share}" for kind, share in (("get", 0.83), ("put", 0.14), ("seek", 0.03))]
    done = client(engine, database, "mixgraph", "--use_existing_db=true", "--reads=6007", "--mix_max_scan_len=20",
                  "--key_distribution=ranges", "--keyrange_num=30", "--keyrange_dist_a=14", "--keyrange_dist_b=-2.9",
                  "--keyrange_dist_c=0.01", "--keyrange_dist_d=-0.01", *ratios)  # fmt: skip
    assert done.code == 0, done.errors
    kinds = done.role("mixgraph")["by_kind"]
    assert sum(kinds.values()) == 6007
    assert done.role("mixgraph")["found"] == done.role("mixgraph")["reads"] == kinds["get"] + kinds["seek"]
    # Within five standard deviations.
    assert abs(kinds["put"] - 6007 * 0.14) < 5 * (6007 * 0.14 * 0.86) ** 0.5
    assert abs(kinds["seek"] - 6007 * 0.03) < 5 * (6007 * 0.03 * 0.97) ** 0.5


@pytest.mark.long
def test_what_was_acknowledged_survives_a_kill(engine: str, tmp_path: Path) -> None:
    place, report = tmp_path / "db", tmp_path / "report.csv"
    mapped = (f"--map_size={8 << 30}",) if engine == "lmdb" else ()
    argv = argv_of(engine, place, "fillseq", "--num=100000000", f"--report_file={report}", *mapped)
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as child:
        until(lambda: report.exists() and report.read_text(encoding="utf-8").count("\n") >= 2, child)
        child.kill()
    written = int(report.read_text(encoding="utf-8").splitlines()[1].split(",")[1])
    done = client(engine, place, "readrandom", "--use_existing_db=true", "--key_distribution=in_order",
                  f"--reads={written}", "--num=100000000", *mapped)  # fmt: skip
    assert done.code == 0, done.errors
    assert done.role("readrandom")["found"] == written > 0


@pytest.mark.long
def test_a_signal_ends_it_with_its_closing_line(engine: str, database: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.csv"
    flags = ("--use_existing_db=true", "--duration=600", f"--report_file={report}")
    argv = argv_of(engine, database, "readrandom", *flags)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as child:
        until(report.exists, child)
        child.send_signal(signal.SIGTERM)
        out, _ = child.communicate()
    assert child.returncode == 0
    (line,) = Ended(0, out, "").closing()
    assert line["ended_by"] == "signal" and line["roles"]["readers"]["found"] == line["roles"]["readers"]["operations"]


def _state(place: Path) -> dict[str, tuple[int, int]]:
    return {f.name: (f.stat().st_size, f.stat().st_mtime_ns) for f in place.iterdir()}


@pytest.mark.long
def test_a_directory_of_another_engine_is_not_touched(engine: str, database: Path, tmp_path: Path) -> None:
    before = _state(database)
    for other in (name for name in ENGINES if name != engine):
        for existing in ("true", "false"):
            done = client(other, database, "readrandom", f"--use_existing_db={existing}")
            assert (done.code, done.out) == (2, "")
            assert f"holds a database of {engine}, not of {other}" in done.errors
    done = client(engine, database, "fillseq")
    assert done.code == 2 and "holds a database already\n  meaning: it is not overwritten" in done.errors
    done = client(engine, tmp_path, "readrandom", "--use_existing_db=true")
    assert done.code == 2 and "holds no database" in done.errors
    assert _state(database) == before and not list(tmp_path.iterdir())


@pytest.mark.long
def test_damage_is_named_in_the_engines_words(engine: str, tmp_path: Path) -> None:
    place = tmp_path / "db"
    assert client(engine, place, "fillseq,flush").code == 0
    data = max((f for f in place.iterdir() if f.suffix in (".sst", ".ldb", ".mdb")), key=lambda f: f.stat().st_size)
    size = data.stat().st_size
    if engine == "lmdb":
        os.truncate(data, size // 2)
    else:
        with data.open("r+b") as file:
            file.seek(size // 4)
            file.write(b"\xff" * 8192)
    done = client(engine, place, "readrandom", "--use_existing_db=true", "--key_distribution=in_order", "--reads=10007")
    assert done.code == 1
    words = {"rocksdb": "get failed: Corruption:", "leveldb": "get failed: Corruption:", "lmdb": "last page ends at"}
    assert words[engine] in done.errors, done.errors


@pytest.mark.long
@pytest.mark.needs("set_tid")
@pytest.mark.parametrize("small_disk", ["6m"], indirect=True)
def test_a_full_disk_is_named_and_what_was_written_stays(engine: str, small_disk: Path, tmp_path: Path) -> None:
    place = small_disk / "db"
    flags = ("--num=1000000", "--value_size=1000", *(("--map_size=67108864",) if engine == "lmdb" else ()))
    done = client(engine, place, "fillseq", *flags)
    # A RocksDB with assertions may abort in its own thread before the Put that fails has returned.
    aborted = engine == "rocksdb" and done.code == -signal.SIGABRT and "writable_file_writer" in done.errors
    # RocksDB 9 lets that Put wait until there is room.
    words = "No space left on device", *(["flushes or compactions of the engine failed"] if engine == "rocksdb" else [])
    assert aborted or (done.code == 1 and any(one in done.errors for one in words)), done.errors
    if engine == "lmdb":
        small = client(engine, tmp_path / "map", "fillseq", "--map_size=1048576")
        assert small.code == 1 and "fix: a larger --map_size" in small.errors


RATE, WRITE_RATE = "--benchmark_read_rate_limit", "--benchmark_write_rate_limit"
NOT_COUNTED = "--counted cannot be had of"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("fillseq --no_such_flag=1", "no_such_flag"),
        ("fillseq --key_size=4", "--key_size=4 is not within 8 to 256"),
        ("fillseq --threads=0", "at least 1"),
        ("fillseq --threads=5000", "at most 4096"),
        ("fillseq --order=sideways", "ascending, descending, shuffled, interleaved, one_after_another"),
        ("fillseq --duration=long", "--duration=long is not"),
        ("fillseq --duration=inf", "--duration=inf is not within"),
        ("fillseq --mix_get_ratio=0", "no shares"),
        ("fillseq --streams=20000", "--streams=20000 is not within 1 to"),
        ("fillseq,fly", "has no benchmark or command fly"),
        # A rate that cannot be held.
        ("readrandom --arrivals=poisson", "--arrivals=poisson is given without a rate, or with one of 0"),
        (f"readrandom --arrivals=fixed {RATE}=0", "--arrivals=fixed is given without a rate, or with one of 0"),
        (f"readrandom --arrivals=closed {RATE}=10", "--arrivals=closed is given, and a rate as well"),
        (f"readrandom --arrivals=fixed {RATE}=-1", f"{RATE}=-1 is not within 0 to 1000000000000"),
        (f"readrandom {RATE}=nan", f"{RATE}=NaN is not within 0 to 1000000000000"),
        (f"readrandom {WRITE_RATE}=inf", f"{WRITE_RATE}=inf is not within 0 to 1000000000000"),
        (f"readrandom --arrivals=fixed {WRITE_RATE}=9", "--arrivals is given, and --benchmarks=readrandom has no rate"),
        (f"readrandom --arrivals=fixed {RATE}=9 --counted=1", "--arrivals=fixed is given, and --counted as well"),
        (f"readrandom --arrivals=random {RATE}=10", "--arrivals=random is not closed, fixed, poisson\n"),
        ("readrandom --service_time=100us", "--service_time=100us is not fixed:TIME or exponential:TIME"),
        ("readrandom --service_time=fixed:0us", "--service_time=fixed:0us is not fixed:TIME or exponential:TIME"),
        (f"readrandom {RATE}=10 --arrival_steps=steps", "--arrival_steps is given without --arrivals"),
        (f"readrandom {RATE}=9 --arrivals=fixed --arrival_steps=steps", 'steps: line 1, "10 fast", is no step'),
        # What has no phases to count.
        ("readwhilewriting --counted=2", f"{NOT_COUNTED} readwhilewriting: it has readers and writers"),
        ("readrandom --counted=2 --threads=2", f"{NOT_COUNTED} readrandom: it has 2 threads"),
        ("readrandom --counted=2 --duration=1", f"{NOT_COUNTED} readrandom: it ends by time"),
        ("fillseq --counted=4 --num=3", f"{NOT_COUNTED} fillseq: a phase would have no operation"),
        ("readrandom --counted=2 --counted_events=cycles-of-nothing", "--counted_events=cycles-of-nothing is not"),
        ("readrandom --counted_events=page-faults", "--counted_events is given without --counted"),
    ],
)
def test_wrong_flags_start_nothing(words: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("steps").write_text("10 fast\n", encoding="utf-8")
    done = client("nothing", tmp_path / "db", *words.split())
    assert done.code == 2 and not done.closing()
    assert done.errors.startswith("ioflame-client: error: ") and says in done.errors
    assert ("--reads=1000" in done.errors) == says.startswith(NOT_COUNTED)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_real_engine_has_no_service_time(engine: str, tmp_path: Path) -> None:
    done = client(engine, tmp_path / "db", "fillseq", "--service_time=fixed:1us")
    assert (done.code, done.out) == (2, "") and not (tmp_path / "db").exists()
    what, meaning, fix = done.errors.splitlines()
    assert f"--service_time=fixed:1us is a flag of --engine=nothing, not of {engine}" in what
    assert meaning.endswith("nothing was started") and fix == "  fix: --engine=nothing, or leave out --service_time"


@pytest.mark.long
@pytest.mark.needs("unshare")
def test_an_absent_library_is_named_with_its_package(tmp_path: Path) -> None:
    found = Path("/usr/lib").glob("*/librocksdb.so.*.*.*")
    hidden = " && ".join(f"mount --bind /dev/null {path}" for path in found)
    prefix = ("unshare", "--mount", "sh", "-c", f'{hidden} && exec "$@"', "sh")
    done = client("rocksdb", tmp_path / "db", "fillseq", prefix=prefix)
    assert done.code == 3
    assert "there is no librocksdb.so here" in done.errors and "apt-get install rocksdb-tools" in done.errors


@pytest.mark.long
def test_every_step_is_one_that_the_client_knows(engine: str, tmp_path: Path) -> None:
    """Each step and workload of its engine.toml, in the order load, the others, on a thousand keys."""
    known = engine_named(engine, client="ioflame")
    build = known.inspect(known.find_binary(None))
    assert (build.flags, build.left_out) == (None, {})
    shape = DatabaseShape(1000)
    for step in ("load", *(name for name in known.steps() if name != "load"), *known.workloads()):
        own = step if known.step(step).creates else "db"
        parameters = StepParameters(
            Sizing(shape, 8 << 20), tmp_path / own, 1, 7, duration=1, report_file=tmp_path / "report.csv",
            flags={"duration": 0, "reads": 53} if step in known.workloads() else {},
        )  # fmt: skip
        done = subprocess.run(known.command(build, step, parameters), capture_output=True, text=True, check=False)
        assert done.returncode == 0, (step, done.stderr)
        if step in known.workloads():
            result = known.parse_result(done.stdout, step)
            assert result is not None, step
            # --reads is of those that read; writers alone find nothing.
            if known.step(step).writes:
                assert (result.reads, result.found) == (None, None) and result.operations >= 1000, step
            else:
                assert result.operations == result.found == 53, step
            # A load at 16 MiB a second fills its first memtable.
            assert known.step(step).creates or known.compacted_gb(done.stdout) == 0.0
        elif "levelstats" in known.steps()[step].benchmarks:
            assert known.parse_tree(done.stdout).levels or step == "load"
        if step == "load":
            writes = columns({**known.figures(done.stdout, step, tmp_path / "db"), "entry_bytes": 1.0, "du_kib": 1.0})
            # Only RocksDB states what a load wrote.
            assert (writes is not None) == (engine == "rocksdb")
            assert writes is None or (float(writes["p50"]) > 0 and float(writes["ops/sec"]) > 0)
            assert all(known.is_database_file(file.name) for file in (tmp_path / "db").iterdir())


@pytest.mark.long
def test_what_the_build_says_of_itself_is_of_the_engine_asked() -> None:
    builds = {name: (e := engine_named(name, client="ioflame")).inspect(e.find_binary(None)) for name in ENGINES}
    assert "librocksdb" in builds["rocksdb"].code.name
    assert builds["leveldb"].code == builds["lmdb"].code == builds["lmdb"].path.resolve()
    # Debian's: RocksDB keeps frame pointers, the other two do not.
    shares = {name: build.frame_pointers for name, build in builds.items()}
    assert all(shares[name] is not None and shares[name] < 0.1 for name in ("leveldb", "lmdb"))  # type: ignore[operator]
    assert not builds["lmdb"].assertions


def test_a_client_that_does_not_drive_an_engine_is_refused() -> None:
    with pytest.raises(UsageError, match="CLIENT=db_bench is not known to LevelDB"):
        engine_named("leveldb", client="db_bench")
    with pytest.raises(UsageError, match="names another client"):
        engine_named("rocksdb", client="ioflame").find_binary("/usr/bin/db_bench")
    with pytest.raises(UsageError, match=r"no/ioflame-client does not exist") as caught:
        engine_named("leveldb").find_binary("/no/ioflame-client")
    assert caught.value.mend.endswith("leave it out for ours")
    assert engine_named("rocksdb", client="ioflame").report_name == "ioflame-client.report.csv"
    assert engine_named("rocksdb").report_name == "db_bench.report.csv"


def test_a_client_that_does_not_run_is_named(tmp_path: Path) -> None:
    says = "echo 'ioflame-client: error: built without lmdb' >&2\necho '  fix: this' >&2\nexit 3"
    broken = script(tmp_path / "ioflame-client", says)
    with pytest.raises(HostError, match="built without lmdb") as caught:
        engine_named("lmdb").inspect(broken)
    assert caught.value.mend == "this"
