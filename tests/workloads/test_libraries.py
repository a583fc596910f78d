"""Our client on a library given by path: the real librocksdb of this host, copies of it, and others'."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

import pytest

from ground.errors import HostError, UsageError
from ground.text.progress import Reporter
from tests.programs import compiled
from tests.workloads.jars import MULTI_GET, altered, host_library, jar_of, own_member
from tests.workloads.test_our_client import client
from workloads.artifact import artifact_facts
from workloads.build import EngineBuild
from workloads.engines.rocksdb.engine import RocksDB
from workloads.libraries import Library, found_library
from workloads.registry import engine_named
from workloads.scales import DatabaseShape, Sizing
from workloads.steps import StepParameters

pytestmark = [pytest.mark.long, pytest.mark.needs("db_bench")]

QUIET = Reporter(quiet=True)


def engine() -> RocksDB:
    return RocksDB(client="ioflame")


@functools.cache
def inspected(path: Path) -> EngineBuild:
    known = engine()
    return known.inspect_library(known.find_binary(None), found_library(known.releases(), str(path), QUIET))


@pytest.fixture(scope="module")
def library() -> Path:
    return host_library()


@pytest.fixture(scope="module")
def older(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without MultiGet, as RocksDB was before 7.3.1; under a name that is none of RocksDB's."""
    renamed = MULTI_GET.replace(b"_cf", b"_xx")
    return altered(library, tmp_path_factory.mktemp("older") / "engine.so", MULTI_GET, renamed)


def test_what_is_recorded_is_of_the_library_that_was_opened(library: Path, older: Path) -> None:
    one, other = inspected(library), inspected(older)
    assert (one.code, other.code) == (library, older) and one.path == other.path
    assert one.version == other.version and older.name == "engine.so"
    facts, others = artifact_facts(one), artifact_facts(other)
    assert facts["engine_library"] == str(library) and others["engine_library"] == str(older)
    assert facts["engine_artifact"] != others["engine_artifact"]
    assert facts["engine_library_build_id"] == others["engine_library_build_id"] != facts["engine_build_id"]
    # Debian's is built with assertions: by what RocksDB itself exports then.
    assert one.assertions and facts["engine_frame_pointers"] == "kept"


def test_a_function_that_is_not_there_is_missed_only_where_it_is_needed(older: Path, tmp_path: Path) -> None:
    build, known = inspected(older), engine()
    assert build.lacks == {"multiread": "7.3.1"}
    with pytest.raises(UsageError, match=r"has no MultiGet in its C interface, which multireadrandom needs: .*7\.3\.1"):
        known.refuse_lacking(build, "multireadrandom")
    known.refuse_lacking(build, "readrandom")
    parameters = StepParameters(Sizing(DatabaseShape(1000), 8 << 20), tmp_path / "db", 1, 7)
    load = known.command(build, "load", parameters)
    assert load[2] == f"--library={older}"
    subprocess.run(load, check=True, capture_output=True)
    common = [str(build.path), "--engine=rocksdb", f"--library={older}", f"--db={tmp_path / 'db'}", "--num=1000"]
    common += ["--key_size=20", "--use_existing_db=true", "--reads=100"]
    # The client itself, before it opens anything: also of a mix.
    for words in (["--benchmarks=multireadrandom"], ["--benchmarks=mixgraph", "--mix_multiget_ratio=0.1"]):
        done = subprocess.run([*common, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and "older than 7.3.1" in done.stderr and done.stdout == ""
    read = subprocess.run([*common, "--benchmarks=readrandom"], capture_output=True, text=True, check=False)
    assert read.returncode == 0 and f'"library":"{older}"' in read.stdout


def test_a_database_for_all_releases_has_their_format(library: Path, tmp_path: Path) -> None:
    known = engine()
    shape = DatabaseShape(1000, tree=known.releases().tree)
    parameters = StepParameters(Sizing(shape, 8 << 20), tmp_path / "db", 1, 7)
    subprocess.run(known.command(inspected(library), "load", parameters), check=True, capture_output=True)
    (options,) = (tmp_path / "db").glob("OPTIONS-*")
    stated = options.read_text()
    assert "format_version=5" in stated and "checksum=kXXH3" in stated and "block_size=8192" in stated
    # Settings that would replace all of these.
    more = f"--library={library}", "--block_based_table_factory={format_version=5;}"
    done = client("rocksdb", tmp_path / "other", "fillseq", *more)
    assert done.code == 2 and "would replace every other setting of the tables" in done.errors
    assert not (tmp_path / "other").exists()


def test_a_library_of_something_else_is_named_also_in_a_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    other = compiled("int answer(void) { return 42; }", tmp_path / "other.so", "-shared", "-fPIC")
    for path in (other, jar_of({own_member(): other}, tmp_path / "others.jar")):
        with pytest.raises(UsageError, match=r"\.so has no rocksdb_") as caught:
            inspected(path)
        assert "not RocksDB" in caught.value.means and "--library" not in caught.value.mend


def test_a_library_for_a_newer_libc_is_told_from_one_that_is_broken(tmp_path: Path) -> None:
    """Linked against a libc of a version that no host has yet."""
    (tmp_path / "versions").write_text("GLIBC_2.999 { global: of_tomorrow; };")
    flags = ("-shared", "-fPIC", "-nostdlib")
    script = f"-Wl,-soname,libc.so.6,--version-script={tmp_path / 'versions'}"
    libc = compiled("int of_tomorrow(void) { return 1; }", tmp_path / "libc.so.6", *flags, script)
    source = "int of_tomorrow(void); int rocksdb_free(void) { return of_tomorrow(); }"
    newer = compiled(source, tmp_path / "newer.so", *flags, libc)
    with pytest.raises(HostError, match=r"GLIBC_2\.999.* not found") as caught:
        inspected(newer)
    assert "built for a newer C or C++ library" in caught.value.means and "ioflame rocksdb list" in caught.value.mend


def test_a_library_that_was_cut_short_of_another_machine_or_a_directory_is_named(library: Path, tmp_path: Path) -> None:
    content = bytearray(library.read_bytes())
    for size in (1 << 20, 100, 0):
        cut = tmp_path / f"{size}.so"
        cut.write_bytes(content[:size])
        with pytest.raises(UsageError, match="is no whole ELF file"):
            inspected(cut)
    other = tmp_path / "librocksdb.so"
    content[18:20] = (0x08).to_bytes(2, "little")  # EM_MIPS
    other.write_bytes(content)
    with pytest.raises(UsageError, match="is a library for EM_MIPS; this host is EM_"):
        inspected(other)
    (tmp_path / "lib.so").mkdir()
    with pytest.raises(UsageError, match="is a directory"):
        found_library(engine().releases(), str(tmp_path / "lib.so"), QUIET)
    with pytest.raises(UsageError, match="opens no library of LMDB"):
        engine_named("lmdb").inspect_library(library, Library(library))
