"""Releases and libraries from a profile to a comparison; and one real release, fetched as a user fetches it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from ground.results.comparison import ComparisonRun
from ground.results.counted import CountRun
from ground.results.run import open_run
from ground.system.binaries import built_binary
from tests.conftest import Ioflame
from tests.e2e.commands import measured
from tests.ioflame.asked import asked, refused
from tests.workloads.jars import MULTI_GET, altered, host_library, jar_of, own_member
from workloads.our_client import lines_of

pytestmark = pytest.mark.needs("perf", "db_bench")

KEYS = 200_000


@pytest.fixture(scope="module")
def jar(place: Path) -> Path:
    """The librocksdb of this host as a jar of a release; another build of it is `other`."""
    return jar_of({own_member(): host_library()}, place / "rocksdbjni-7.8.3-linux64.jar")


@pytest.fixture(scope="module")
def other(place: Path) -> Path:
    renamed = MULTI_GET.replace(b"_cf", b"_xx")
    return altered(host_library(), place / "other" / "librocksdb.so", MULTI_GET, renamed)


@pytest.fixture(autouse=True)
def cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of these tests alone, so that what was fetched is fetched once."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    return place / "cache"


@pytest.fixture
def small(place: Path, tmp_path: Path) -> list[str]:
    """Of a small database that arms share, for which every release's format is asked."""
    database = f"--db-dir={place / 'released'}"
    return ["--scale=smoke", f"--num-keys={KEYS}", "--duration=1", database, f"--out={tmp_path}"]


def compared(out: Path, *words: str | Path) -> tuple[ComparisonRun, str]:
    """A comparison to its end, and what it printed."""
    ioflame = Ioflame()
    code, said, err = ioflame.run("compare", *words)
    assert code in (0, 1) and ioflame.left_behind() == [], err + said
    (directory,) = out.glob("*-compare-*")
    return ComparisonRun.open(directory), said


@pytest.mark.long
def test_a_jar_is_profiled_with_what_it_is_from(cache: Path, small: list[str], jar: Path, tmp_path: Path) -> None:
    done = measured(tmp_path, "profile", f"--rocksdb={jar}", *small, "--collect=perf", "--config=byrx")
    assert f"unpack {jar}" in done.err
    record = done.record
    library = Path(record.tools["engine_library"])
    assert library.is_relative_to(cache) and library.name == "librocksdb.so"
    assert record.tools["engine_release"] == str(jar) and record.options["client"] == "ioflame"
    argv = next(one.argv for one in record.commands if one.pid == record.pid)
    assert f"--library={library}" in argv and "--format_version=5" in argv and "--checksum=kXXH3" in argv
    assert record.profile is not None


@pytest.mark.long
def test_every_session_measures_a_link_of_its_own(small: list[str], other: Path, tmp_path: Path) -> None:
    own = tmp_path / "own" / "librocksdb.so"
    own.parent.mkdir()
    own.write_bytes(host_library().read_bytes())
    # As a linker would: other bits each time, which behave alike.
    relink = (
        f'case $IOFLAME_ARM in a) cp {own} "$IOFLAME_OUT";; b) cp {other} "$IOFLAME_OUT";; esac && '
        f'echo $IOFLAME_SEED >> "$IOFLAME_OUT" && echo $IOFLAME_ARM $IOFLAME_SEED >> {tmp_path}/links'
    )
    words = [f"--rocksdb=a={own},b={other}", "--sessions=2", "--blocks=1", "--config=byrx", "--seed=7"]
    going, out = compared(tmp_path, *small, *words, f"--relink={relink}")
    assert "Every session linked every arm anew" in out
    links = [line.split() for line in (tmp_path / "links").read_text().splitlines()]
    # The twin is the base in an order of its own.
    assert sorted(arm for arm, _ in links) == ["a", "a", "a", "a", "b", "b"]
    assert len({seed for _, seed in links}) == len(links)
    processes = going.record.sessions[0].processes
    tools = [open_run(going.directory / one.directory).record.tools for one in processes]
    assert len({one["engine_library_sha256"] for one in tools}) == len(processes) == 3
    assert not (going.directory / "links").exists()


@pytest.mark.long
def test_a_workload_that_makes_its_database_is_compared(
    small: list[str], jar: Path, other: Path, tmp_path: Path
) -> None:
    """Each process on an empty copy; what flushes and compactions cost is a figure of its own."""
    words = [f"--rocksdb=a={jar},b={other}", "--workload=fillseq", "--config=iobuf_lz4", "--sessions=1", "--blocks=1"]
    words += ["--no-twin", "--duration=3", "--schedule=process", f"--db-dir={tmp_path / 'db'}"]
    going, _ = compared(tmp_path, *small, *words)
    decisions = json.loads((going.directory / "verdict.json").read_text())["arms"][0]["decisions"]
    assert decisions["bgPer"]["base_value"] > 0
    logs = [path.read_text() for path in going.directory.glob("s01*/ioflame-client.log")]
    assert logs and all("kLZ4Compression" not in log for log in logs)


@pytest.mark.long
@pytest.mark.needs("valgrind", "allocators")
def test_two_libraries_are_arms_that_read_one_tree_and_instructions_are_counted_beside_the_time(
    capsys: pytest.CaptureFixture[str], small: list[str], jar: Path, other: Path, tmp_path: Path
) -> None:
    words = [f"--rocksdb=a={jar},b={other}", "--sessions=1", "--blocks=1", "--no-twin", "--config=byrx", "--seed=7"]
    going, out = compared(tmp_path, *small, *words, "--count", "--operation=put")
    record, directory = going.record, going.directory
    assert record.not_comparable == [] and record.plan.tree == "shared"
    # What differs is the library alone, and follows from the factor.
    assert record.besides == {} and "tool engine_library_sha256" in record.differing
    assert [Path(arm.identity["engine_library"]).name for arm in record.arms] == ["librocksdb.so"] * 2
    # The same compiler: nothing is said of it.
    assert record.compilers == "" and "compiler's" not in out
    counted = CountRun.open(directory / "counted").record
    assert list(counted.operations) == ["put"] and [arm.name for arm in counted.arms] == ["a", "b"]
    # The two are one code. Time says nothing after one session.
    says = "b, put: same instructions; the time is undecided here: believe the count, for the code alone"
    assert says in " ".join(out.split()) and "Not counted: the kernel" in out
    verdict = json.loads((directory / "verdict.json").read_text())
    assert verdict["counted"] == [says] and {"qps", "cpuPer"} <= verdict["arms"][0]["decisions"].keys()
    assert "Counted instructions" in (directory / "compare.html").read_text()
    # It is not counted again by looking.
    code, out, err = asked(capsys, "compare", directory)
    assert code in (0, 1) and says in " ".join(out.split()), err


@pytest.mark.long
def test_clients_with_another_library_in_them_are_arms(place: Path, tmp_path: Path) -> None:
    """LevelDB and LMDB are linked into our client: another version of them is another client."""
    built = built_binary("ioflame-client")
    other = place / "lmdb" / "ioflame-client"
    other.parent.mkdir()
    # Bytes behind the end of an ELF file are another build's, and change nothing.
    other.write_bytes(built.read_bytes() + b"another build")
    other.chmod(0o755)
    words = ["--engine=lmdb", f"--arm=a={built}", f"--arm=b={other}", "--sessions=1", "--blocks=1", "--no-twin"]
    words += ["--scale=smoke", f"--num-keys={KEYS}", "--duration=1", "--seed=7", f"--db-dir={tmp_path / 'db'}"]
    going, _ = compared(tmp_path / "out", *words, f"--out={tmp_path / 'out'}")
    record = going.record
    assert record.not_comparable == [] and record.engine == "lmdb"
    assert [arm.identity["engine_binary"] for arm in record.arms] == [str(built), str(other)]


OWN = """
about = "Gets of two libraries"
shows = "that cells are run with each, on trees that both can read"
cannot = "anything: windows of a second"
steps = ["load", "settle", "readrandom"]
same = []
scale.smoke = { about = "seconds", num_keys = 50_000, duration = 1, warmup = 1, collect = [] }
cells = [{ name = "byrx", configuration = "byrx" }]
columns = [{ name = "gets", about = "Gets a second", part = ["readrandom.qps"], metric = "qps" }]
holds = [{ what = "some are answered", proof = "within", column = "gets", low = 1.0, high = 1e9 }]
curve = { source = "nobody", relative.byrx.gets = { "7.8.3" = 1.0 } }
"""


@pytest.mark.long
def test_an_experiment_runs_each_library_beside_what_was_published(
    ioflame: Ioflame, jar: Path, other: Path, tmp_path: Path
) -> None:
    (tmp_path / "own.toml").write_text(OWN)
    words = ["--scale=smoke", f"--rocksdb=a={jar},b={other}"]
    words += [f"--db-dir={tmp_path / 'db'}", f"--out={tmp_path / 'out'}"]
    code, out, err = ioflame.run("experiment", tmp_path / "own.toml", *words)
    assert code in (0, 1), err + out
    # How long it takes is said first; the base is run once more at the end.
    assert "steps, about" in err.partition("run 1 of 3")[0]
    (going,) = (tmp_path / "out").glob("*-own")
    builds = json.loads((going / "cells.json").read_text())["builds"]
    assert list(builds) == ["a", "b"] and builds["b"]["engine_library"] == str(other)
    # The run's record has the configuration of its cell, and not the default.
    assert open_run(going / "byrx, b-1-readrandom").record.options["configuration"] == "byrx"
    assert "byrx: beside the published relative rates" in out and "published: nobody" in out
    # Of one round there is no interval.
    (row,) = [line.split() for line in out.splitlines() if "gets" in line and "cannot be decided" in line]
    assert {"b", "7.8.3"} <= set(row)
    assert re.search(r"test +agrees +differs +cannot be decided +not published\n +gets +b\n +all 1 +0 +0 +1 +0\n", out)
    # How long it takes is explained as well, and is all rounds and both libraries.
    code, out, err = ioflame.run("explain", tmp_path / "own.toml", "--repeats=3", *words)
    assert code == 0 and "# 27 steps, about" in out, err + out


@pytest.mark.by_hand
@pytest.mark.needs("maven")
def test_a_release_is_fetched_once_and_reads_and_is_read(
    ioflame: Ioflame, capsys: pytest.CaptureFixture[str], cache: Path, small: list[str], tmp_path: Path
) -> None:
    """6.29.5 loads, what this host has reads, and the reverse. The network is needed for the first command alone."""
    code, out, err = ioflame.run("rocksdb", "get", "6.29.5", seconds=900)
    assert code == 0, err
    library = Path(out.strip().rpartition(" ")[2])
    assert library.is_relative_to(cache) and "fetch org.rocksdb:rocksdbjni:6.29.5:jar:linux64" in err
    hidden = ["unshare", "--net"]
    again = subprocess.run([*hidden, "true"], check=False).returncode == 0
    code, offline, err = ioflame.run("rocksdb", "get", "6.29.5", prefix=tuple(hidden) if again else ())
    assert code == 0 and offline == out, err
    assert "fetch" not in err
    said = refused(capsys, "profile", "--rocksdb=6.29.5", "--workload=multireadrandom", *small)
    assert "RocksDB 6.29.5 has no MultiGet" in said and not list(tmp_path.iterdir())
    said = refused(capsys, "rocksdb", "get", "10.4.99")
    assert "there is no org.rocksdb:rocksdbjni:10.4.99:jar:linux64" in said and "ioflame rocksdb list" in said
    assert not list(cache.glob("ioflame/rocksdb/10.4.99*"))
    theirs, ours = ["--library=" + str(library)], ["--library=" + str(host_library())]
    for number, (loads, reads) in enumerate(((theirs, ours), (ours, theirs))):
        common = [str(built_binary("ioflame-client")), "--engine=rocksdb", f"--db={tmp_path / str(number)}"]
        common += ["--num=5000", "--key_size=20", "--format_version=5", "--checksum=kXXH3", "--bloom_bits=10"]
        subprocess.run([*common, *loads, "--benchmarks=fillseq,flush"], check=True, capture_output=True)
        done = subprocess.run(
            [*common, *reads, "--benchmarks=readrandom", "--use_existing_db=true"], check=True, capture_output=True
        )
        role = lines_of(done.stdout.decode(), "roles")[0]["readers"]
        assert role["found"] == role["reads"] == 5000
    code, _, err = asked(capsys, "compare", "--plan", f"--rocksdb=6.29.5,{host_library()}", *small)
    assert code == 0, err
