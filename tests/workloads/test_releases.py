"""Releases that need no build: what is asked for, what is kept of a jar, and what is refused with nothing kept."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from ground.errors import EXIT_HOST, HostError, UsageError
from ground.settings import FrontEnd, worded_for
from ground.system.atomic_files import file_sha256
from ground.text.progress import Reporter
from ioflame.cli import main
from tests.e2e.commands import script
from tests.workloads.jars import ROCKSDB, jar_of, listing, own_member
from workloads.engines.rocksdb.engine import RocksDB
from workloads.libraries import asked_libraries, found_library, names_a_library
from workloads.release_cache import ReleaseCache
from workloads.release_fetch import unpack
from workloads.releases import version_number

QUIET = Reporter(quiet=True)
BYTES = b"\x7fELF not a library, but whole" * 1000


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of our own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "ioflame" / "rocksdb"


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    return jar_of({own_member(): BYTES, "librocksdbjni-linux-riscv64.so": b"of another machine"}, tmp_path / "r.jar")


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Maven, as on a host that never had it, and a proxy that is not there."""
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")


@contextlib.contextmanager
def served(directory: Path) -> Iterator[str]:
    """The address below which the files of a directory are."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(directory))) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def test_the_list_has_each_release_once_in_order_with_a_whole_hash() -> None:
    versions = [one.version for one in ROCKSDB.release]
    assert versions == sorted(set(versions), key=version_number) and versions[0] == "6.29.5"
    assert all(len(one.sha256) == 64 and one.compiler.keys() == ROCKSDB.members.keys() for one in ROCKSDB.release)
    # Since 11.0 there is only the jar for all platforms.
    assert [one.version for one in ROCKSDB.release if one.whole] == [one for one in versions if one.startswith("11.")]
    # The step that is no engine's: between these two the compiler of the published libraries changed.
    before, after = ROCKSDB.named("10.4.2"), ROCKSDB.named("10.5.1")
    assert before and after and before.compiler != after.compiler


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("10.4.2", ["10.4.2"]),
        ("10.99.1", ["10.99.1"]),
        ("9.10.0..10.5.1", ["9.10.0", "10.4.2", "10.5.1"]),
        ("10..10", ["10.4.2", "10.5.1", "10.6.2", "10.10.1.1"]),
        ("10.6..10.10.1", ["10.6.2", "10.10.1"]),
        ("10.10.1..11", ["10.10.1.1", "11.0.4", "11.1.2", "11.8.1"]),
        ("6.29..7.10", ["6.29.5", "7.5.3", "7.10.2"]),
        ("/a/librocksdb.so", None),
        ("10", None),
    ],
)
def test_a_range_is_the_last_listed_patch_of_each_minor_version(text: str, versions: list[str] | None) -> None:
    assert ROCKSDB.versions_in(text) == versions


def test_several_are_asked_for_by_commas_ranges_and_names(tmp_path: Path) -> None:
    built = tmp_path / "a,b" / "librocksdb.so.10.5"
    built.parent.mkdir()
    built.touch()
    found = asked_libraries(ROCKSDB, ["9.10.0,10.4.2", f"mine={built}", str(built), "10.5..10.6", "old=x.jar"])
    assert [(one.name, one.what) for one in found] == [
        ("9.10.0", "9.10.0"), ("10.4.2", "10.4.2"), ("mine", str(built)), ("librocksdb.so.10.5", str(built)),
        ("10.5.1", "10.5.1"), ("10.6.2", "10.6.2"), ("old", "x.jar"),
    ]  # fmt: skip
    assert names_a_library(ROCKSDB, "10.4.2") and names_a_library(ROCKSDB, "/x/librocksdb.so.9")
    assert not names_a_library(ROCKSDB, "db_bench") and not names_a_library(ROCKSDB, "/b/10.5/db_bench")


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (["latest"], "--rocksdb=latest is no release and no path of a library or a jar"),
        (["10.4.2", "10.4.2"], "two are called 10.4.2"),
        (["a=9.10.0,a=10.4.2"], "two are called a"),
        (["all=9..10"], "cannot have one name"),
        (["1.0..2.0"], "0 listed releases in that range"),
    ],
)
def test_what_makes_no_sense_is_refused(asked: list[str], says: str) -> None:
    with worded_for(FrontEnd.COMMAND), pytest.raises(UsageError) as caught:
        asked_libraries(ROCKSDB, asked)
    assert says in caught.value.what and "nothing was started" in caught.value.means


@pytest.mark.usefixtures("offline")
def test_a_jar_is_unpacked_once_and_then_asks_nobody(jar: Path, cache: Path) -> None:
    releases = listing({"10.4.2": jar})
    first = found_library(releases, str(jar), QUIET)
    machine = os.uname().machine
    # Whole files alone, and of this machine's member alone.
    assert files(cache) == ["10.4.2", f"10.4.2/{machine}", f"10.4.2/{machine}/librocksdb.so",
                            f"10.4.2/{machine}/release.json"]  # fmt: skip
    assert first.path.read_bytes() == BYTES
    with pytest.raises(FileExistsError):
        unpack(releases, jar, first.path)
    jar.unlink()
    # By its SHA-256 it is that release: its version is enough from now on.
    again = found_library(releases, "10.4.2", QUIET)
    assert again == first
    assert again.facts == {
        "engine_release": "org.rocksdb:rocksdbjni:10.4.2:jar:linux64",
        "engine_bundled": "snappy 1.1.9",
    }
    (name, record), *others = ReleaseCache(releases).entries()
    assert (name, record.version, record.architecture, others) == ("10.4.2", "10.4.2", machine, [])
    assert record.jar_sha256 == releases.release[0].sha256 and record.date


def test_a_jar_that_no_list_has_is_called_after_its_hash(jar: Path, cache: Path) -> None:
    library = found_library(ROCKSDB, str(jar), QUIET)
    (name,) = (path.name for path in cache.iterdir())
    assert name.startswith("jar-") and library.facts == {"engine_release": str(jar)}
    assert main(["rocksdb", "remove", name]) == 0
    assert files(cache) == []


def flipped(jar: Path) -> None:
    content = bytearray(jar.read_bytes())
    content[content.index(own_member().encode()) + len(own_member()) + 40] ^= 1
    jar.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda jar: os.truncate(jar, jar.stat().st_size // 2), "is no whole jar"),
        (flipped, "is no whole jar"),
        (lambda jar: jar_of({"librocksdbjni-linux-riscv64.so": BYTES}, jar),
         f"holds no library for {os.uname().machine}, only librocksdbjni-linux-riscv64.so"),
        (lambda jar: jar_of({}, jar), "holds no library"),
        (Path.unlink, "cannot be read: No such file"),
    ],
)  # fmt: skip
def test_of_a_jar_that_is_no_good_nothing_is_kept(
    jar: Path, cache: Path, damage: Callable[[Path], object], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(jar)
    assert main(["rocksdb", "get", str(jar)]) == 2
    said = capsys.readouterr().err
    assert says in said and "meaning: " in said
    assert not cache.exists() or files(cache) == []


def test_a_library_that_was_changed_since_is_refused(jar: Path) -> None:
    releases = listing({"10.4.2": jar})
    library = found_library(releases, str(jar), QUIET).path
    whole = library.read_bytes()
    library.write_bytes(whole[:-1] + b"!")
    with pytest.raises(HostError, match="is not the file that was put there") as caught:
        found_library(releases, "10.4.2", QUIET)
    assert caught.value.mend == "ioflame rocksdb remove 10.4.2; ioflame rocksdb get 10.4.2"
    # One of another jar under the name of a listed release.
    library.write_bytes(whole)
    record = library.with_name("release.json")
    record.write_text(json.dumps({**json.loads(record.read_text()), "jar_sha256": "0" * 64}))
    with pytest.raises(HostError, match="is from a jar with SHA-256 000"):
        found_library(releases, "10.4.2", QUIET)


def test_what_a_killed_one_had_begun_is_removed(jar: Path, cache: Path) -> None:
    begun = cache / "10.4.2" / f"{os.uname().machine}.{2**22 + 1}.part"
    begun.mkdir(parents=True)
    (begun / "librocksdb.so").write_bytes(BYTES[:9])
    assert not ReleaseCache(listing({"10.4.2": jar})).has("10.4.2")
    found_library(listing({"10.4.2": jar}), str(jar), QUIET)
    assert not begun.exists()


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("command", [["profile"], ["compare", "--rocksdb=9.10.0"], ["rocksdb", "get"]])
def test_without_a_network_the_command_is_told_that_fetches_it_elsewhere(
    command: list[str], cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No Maven either: the jar comes from another host."""
    words = ["10.4.2"] if "get" in command else ["--rocksdb=10.4.2", f"--out={tmp_path / 'runs'}"]
    assert main([*command, *words]) == EXIT_HOST
    said = capsys.readouterr().err
    version = "9.10.0" if "compare" in command else "10.4.2"
    place = f"https://repo1.maven.org/maven2/org/rocksdb/rocksdbjni/{version}"
    assert "Connection refused" in said and f"curl -fO {place}/rocksdbjni-{version}-linux64.jar" in said
    assert f"=rocksdbjni-{version}-linux64.jar" in said
    assert not cache.exists() or files(cache) == []
    assert not list((tmp_path / "runs").glob("*"))


@pytest.mark.usefixtures("offline")
def test_without_maven_a_jar_is_downloaded(
    jar: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    place = tmp_path / "served" / "org" / "rocksdb" / "rocksdbjni" / "10.4.2"
    place.mkdir(parents=True)
    jar.rename(place / "rocksdbjni-10.4.2-linux64.jar")
    with served(tmp_path / "served") as address:
        releases = msgspec.structs.replace(listing({"10.4.2": next(place.iterdir())}), repository=address)
        assert found_library(releases, "10.4.2", QUIET).path.read_bytes() == BYTES
        with pytest.raises(UsageError, match=r"there is no org\.rocksdb:rocksdbjni:10\.4\.3"):
            found_library(releases, "10.4.3", QUIET)
    assert [one.name for one in cache.iterdir()] == ["10.4.2"]


# What Maven prints where nothing answers; `%s` is the artifact.
NO_NETWORK = (
    "[ERROR] Failed to execute goal on project standalone-pom: Couldn't download artifact: "
    "org.eclipse.aether.resolution.ArtifactResolutionException:\n"
    "[ERROR]   Could not transfer artifact %s from/to central: Unknown host repository.example\n"
)


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Maven and the network behind it, as a script that knows by `$to` where the jar is wanted."""

    def made(text: str) -> None:
        words = 'for word; do case "$word" in -DoutputDirectory=*) to="${word#*=}" ;; esac; done'
        program = script(tmp_path / "bin" / "mvn", f"{words}\n{text}")
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    return made


def test_a_jar_that_is_not_the_published_one_is_refused(
    maven: Callable[[str], None], jar: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mirror that was tampered with, or a fetch that ended early without a word: the SHA-256 tells."""
    for damage in ("", f"; truncate -s {jar.stat().st_size // 2} $to/*.jar"):
        maven(f"cp {shlex.quote(str(jar))} $to/rocksdbjni-10.4.2-linux64.jar{damage}")
        assert main(["rocksdb", "get", "10.4.2"]) == EXIT_HOST
        said = capsys.readouterr().err
        listed = ROCKSDB.named("10.4.2")
        assert listed and f"the release has {listed.sha256}" in said and "it was not kept" in said
        # Maven keeps its own copy, and would give it again.
        assert "rm -r " in said and "/.m2/repository/org/rocksdb/rocksdbjni/10.4.2" in said
        assert not cache.exists() or files(cache) == []


def test_a_version_that_no_list_has_is_taken_with_a_warning_if_it_is_whole(
    maven: Callable[[str], None], jar: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put = f"cp {shlex.quote(str(jar))} $to/rocksdbjni-10.99.1-linux64.jar"
    maven(f"{put}; truncate -s {jar.stat().st_size // 2} $to/*.jar")
    assert main(["rocksdb", "get", "10.99.1"]) == 2
    assert "is no whole jar" in capsys.readouterr().err and (not cache.exists() or files(cache) == [])
    maven(put)
    assert main(["rocksdb", "get", "10.99.1"]) == 0
    said = capsys.readouterr()
    assert "10.99.1 is not in the list of releases: its SHA-256" in said.err
    assert Path(said.out.split()[-1]).read_bytes() == BYTES


@pytest.mark.parametrize(("version", "size"), [("11.1.2", "87 MB"), ("11.99.1", "about 92 MB")])
def test_where_there_is_no_jar_for_linux_the_one_for_all_platforms_is_fetched_and_one_library_of_it_kept(
    maven: Callable[[str], None], jar: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], version: str, size: str,
) -> None:  # fmt: skip
    listed = ROCKSDB.named(version)
    if listed:
        known = msgspec.structs.replace(listed, sha256=file_sha256(jar))
        releases = msgspec.structs.replace(ROCKSDB, release=[known])
        monkeypatch.setattr(RocksDB, "releases", lambda _: releases)
    maven(
        f'echo "$*" >> {tmp_path}/asked\n'
        "case \"$*\" in *:jar:linux64*) echo '[ERROR]   Could not find artifact it in central'; exit 1;; esac\n"
        "printf 'Progress (1): 45/123 kB\\rProgress (1): 0.3/87 MB\\rProgress (1): 45/87 MB\\r'\n"
        f"cp {shlex.quote(str(jar))} $to/rocksdbjni-{version}.jar"
    )
    assert main(["rocksdb", "get", version]) == 0
    said, machine = capsys.readouterr(), os.uname().machine
    artifact = f"org.rocksdb:rocksdbjni:{version}:jar"
    assert f"fetch {artifact}, {size} for all platforms" in said.err and "45 of 87 MB" in said.err
    assert files(cache)[2:] == [f"{version}/{machine}/librocksdb.so", f"{version}/{machine}/release.json"]
    asked = [f"-Dartifact={artifact}:linux64 " in line for line in (tmp_path / "asked").read_text().splitlines()]
    # Of a listed release it is known which jar there is.
    assert asked == [False] if listed else asked == [True, False]
    assert found_library(RocksDB().releases(), version, QUIET).facts["engine_release"] == artifact


@pytest.mark.parametrize(
    ("fetch", "code", "says"),
    [
        # The jar is there, and Maven does not vouch for it; half of one; and nothing.
        ("cp $jar $to/; echo '[ERROR] Could not transfer: reset' >&2; exit 1", EXIT_HOST, "Could not transfer: reset"),
        ("head -c 999 $jar > $to/rocksdbjni.jar; kill -9 $$", EXIT_HOST, "exit code -9: it printed nothing"),
        ("exit 0", EXIT_HOST, "exit code 0: it printed nothing"),
        (f"printf '%b' \"{NO_NETWORK % 'it'}\"; exit 1", EXIT_HOST, "Could not transfer artifact it from/to central"),
        ("echo '[ERROR]   Could not find artifact it in central'; exit 1", 2, "there is no org.rocksdb:rocksdbjni:"),
    ],
)
def test_of_a_fetch_that_failed_nothing_is_kept_and_maven_says_why(
    maven: Callable[[str], None], jar: Path, cache: Path, fetch: str, code: int, says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    maven(f"jar={shlex.quote(str(jar))}\n{fetch}")
    assert main(["rocksdb", "get", "10.4.2"]) == code
    said = capsys.readouterr().err
    assert says in said and "nothing was" in said
    # No network is not a version that does not exist.
    assert ("there is no org.rocksdb" in said) == (code == 2)
    assert not cache.exists() or files(cache) == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--rocksdb=10.4.2", "--client=db_bench"], "is opened by our own client"),
        (["--rocksdb=10.4.2", "--db-bench=/usr/bin/db_bench"], "is opened by our own client"),
        (["--rocksdb=10.4.2", "--engine=lmdb"], "names a library of another engine"),
        (["--rocksdb=/nowhere/librocksdb.so"], "/nowhere/librocksdb.so does not exist"),
        ([f"--rocksdb={Path(__file__).parent}/data.so"], "data.so does not exist"),
    ],
)
def test_what_it_does_not_go_with_is_refused(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with worded_for(FrontEnd.COMMAND):
        assert main(["profile", *words]) == 2
    assert says in capsys.readouterr().err


def test_what_is_here_and_what_can_be_had_is_listed(jar: Path, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rocksdb", "get", str(jar)]) == 0
    assert main(["rocksdb", "list"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[1].startswith("r: ") or said[0].startswith("r: ")
    rows = [line for line in said if "MB to fetch" in line]
    assert [line.split()[0] for line in rows] == [one.version for one in ROCKSDB.release]
    assert any(line.startswith("jar-") and str(jar) in line for line in said) and str(cache) in said[-1]
    name, here = next(cache.iterdir()).name, files(cache)
    for words in (["remove", name, "10.4.2"], ["get", str(jar), "/nowhere/librocksdb.so"]):
        assert main(["rocksdb", *words]) == 2
        out, err = capsys.readouterr()
        assert out == "" and ("10.4.2 is not in" in err or "librocksdb.so does not exist" in err)
        assert "meaning: nothing was" in err and "fix: " in err
        assert files(cache) == here
