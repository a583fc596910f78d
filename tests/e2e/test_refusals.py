"""What cannot work is refused before anything starts, with what to type instead: the host is looked at, no more."""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ground.system.target import Target
from tests.e2e.commands import script, service
from tests.ioflame.asked import asked, refused
from tests.workloads.jars import MULTI_GET, altered, host_library, jar_of, own_member

pytestmark = pytest.mark.needs("perf", "db_bench")

Refused = Callable[..., str]
_SMOKE = ("--scale=smoke", "--num-keys=200000", "--duration=1")


@pytest.fixture
def nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Refused:
    """Refuses a command whose runs and databases would be below `tmp_path`, and of which nothing is there then."""

    def refuses(command: str, *words: str | Path, code: int = 2) -> str:
        given = {str(word).partition("=")[0] for word in words}
        places = [f"{name}={tmp_path / name[2:]}" for name in ("--out", "--db-dir") if name not in given]
        if command in ("count", "attach", "pmp"):
            places = places[:1]
        said = refused(capsys, command, *words, *places, code=code)
        assert not [*tmp_path.rglob("*.sst"), *tmp_path.rglob("run.json"), *tmp_path.glob("out")]
        return said

    return refuses


@pytest.mark.parametrize(
    ("word", "says", "code"),
    [
        ("--db-bench=/no/such/db_bench", "DB_BENCH=/no/such/db_bench does not exist", 2),
        ("--db-bench=/etc/passwd", "DB_BENCH=/etc/passwd is there but cannot be executed", 2),
        ("--db-bench=/bin/true", "/bin/true did not run a one-operation job", 3),
        ("--num-keys=1000000000000", "would fill the disk", 3),
        ("--event=no-such-event", "perf cannot record no-such-event", 3),
        ("--out=/proc/ioflame", "OUT=/proc/ioflame cannot be written to", 2),
        ("--out=/dev/null", "OUT=/dev/null cannot be written to", 2),
        ("--db-dir=/proc/db", "0 B are free for /proc/db", 3),
        ("--db-dir=/dev/shm/ioflame-test/db", "is on no block device", 3),
    ],
)
def test_a_profile_that_cannot_work(nothing: Refused, word: str, says: str, code: int) -> None:
    said = nothing("profile", word, "--scale=smoke", code=code)
    assert says in said and "fix:" in said
    assert not Path("/dev/shm/ioflame-test").exists()


def test_an_experiment_that_was_not_begun_or_by_an_older_ioflame_does_not_go_on(
    nothing: Refused, tmp_path: Path
) -> None:
    words = ("experiment", "io-efficiency", "--scale=smoke", f"--resume={tmp_path}")
    assert f"{tmp_path}/cells.json cannot be read" in nothing(*words)
    (tmp_path / "experiment.json").write_text("{}", encoding="ascii")
    said = nothing(*words)
    assert "older ioflame" in said and "ioflame report|show DIRECTORY/RUN" in said


@pytest.mark.long
def test_an_experiment_that_no_disk_has_room_for(nothing: Refused) -> None:
    said = nothing("experiment", "trivial-move", "--num-keys=100G", code=3)
    assert "NUM_KEYS" in said and re.search(r"a cell needs [\d.]+ TiB of disk", said)


@pytest.mark.long
def test_an_experiment_without_fio(
    nothing: Refused, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real PATH with everything but fio."""
    programs = tmp_path_factory.mktemp("bin")
    for place in filter(Path.is_dir, map(Path, os.get_exec_path())):
        for program in place.iterdir():
            if program.name != "fio" and not os.path.lexists(programs / program.name):
                (programs / program.name).symlink_to(program)
    monkeypatch.setenv("PATH", str(programs))
    said = nothing("experiment", "io-efficiency", "--scale=smoke", code=3)
    assert "fio is not installed" in said and "apt-get install fio" in said


@pytest.mark.long
def test_a_client_without_a_flag_of_a_row(nothing: Refused, tmp_path: Path) -> None:
    help_without = 'if [ "$1" = --help ]; then db_bench --help | grep -v prefix_size; else exec db_bench "$@"; fi'
    older = script(tmp_path / "older_bench", help_without)
    said = nothing("experiment", "trivial-move", "--scale=smoke", f"--db-bench={older}")
    assert "does not know --prefix_size of step load" in said


@pytest.mark.long
def test_a_comparison_takes_two_builds_and_the_time_that_it_needs(
    nothing: Refused, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert "are the same" in nothing("compare", *_SMOKE, "--arm=a=db_bench", "--arm=b=db_bench")
    assert "arm A reads the device" in nothing("compare", *_SMOKE, "--null=db_bench", "--schedule=duet")
    places = [f"--out={tmp_path / 'out'}", f"--db-dir={tmp_path / 'db'}"]
    command = ["compare", *_SMOKE, "--null=db_bench", "--plan"]
    code, out, err = asked(capsys, *command, *places)
    assert code == 0 and ", 4 blocks a session, at most 16 sessions, looks after 4" in out, err
    # A start is taken to last 15 s, a block 8 s: four sessions of three blocks are 3 min 44 s, of four 4 min 16 s.
    code, out, err = asked(capsys, *command, *places, "--time=4m")
    assert code == 0 and ", 2 blocks a session, at most 16 sessions in 4 min 00 s, looks after 4" in out, err
    assert "longer than --time" in out
    assert "4 sessions of 1 block take about 3 min" in nothing(*command, "--time=90s")
    assert "or fewer --blocks than 9" in nothing(*command, "--time=4m", "--blocks=9")


@pytest.mark.long
def test_command_lines_that_cannot_be_arms(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    load = ["db_bench", "--benchmarks=fillseq", f"--db={tmp_path}/db", "--num=1000"]
    subprocess.run(load, check=True, capture_output=True)
    common = f"db_bench --benchmarks=readrandom --use_existing_db --db={tmp_path}/db --duration=60"
    for arms, says in {
        (f"a={common} --threads=1", f"b={common} --threads 1"): "arms a and b are the same",
        (f"a={common}", f"b={common} --benchmarks=overwrite"): "arms run different benchmarks",
        (f"a={common}", f"b={common} --no_such_flag=1"): "does not know --no_such_flag",
        (f"a={common} --db={tmp_path}", f"b={common} --threads=2"): "there is no database of RocksDB",
        (f"a={common}", "b=db_bench"): "is a client alone, and another arm is a whole command line",
    }.items():
        assert says in refused(capsys, "compare", f"--out={tmp_path / 'out'}", *(f"--arm={arm}" for arm in arms))


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The librocksdb of this host, itself and as a jar of a release, and another build of it."""
    place, same = tmp_path_factory.mktemp("libraries"), host_library()
    other = altered(same, place / "other" / "librocksdb.so", MULTI_GET, MULTI_GET.replace(b"_cf", b"_xx"))
    other.chmod(0o755)
    return {"jar": jar_of({own_member(): same}, place / "rocksdbjni-7.8.3-linux64.jar"), "same": same, "other": other}


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--rocksdb={jar},{other}", "--relink=true"], "is a release, without its object files"),
        (["--rocksdb=a={jar},b={same}"], "arms a and b are the same"),
        (["--arm=a={jar}", "--arm=b=db_bench"], "some arms are libraries"),
        (["--rocksdb={jar},{other}", "--workload=multireadrandom"], "has no MultiGet"),
        (["--rocksdb={jar},{other}", "--workload=revrange", "--count"], "does what revrange does"),
    ],
)
def test_libraries_that_cannot_be_compared(
    nothing: Refused, libraries: dict[str, Path], tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch, words: list[str], says: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    given = [word.format(**libraries) for word in words]
    assert says in nothing("compare", *_SMOKE, *given)


@pytest.mark.needs("valgrind", "allocators")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--limit=put=9", "--operation=get"], "that operation is not counted here"),
        (["--baseline=/no/such"], "/no/such/counted.json cannot be read"),
    ],
)
def test_a_count_that_makes_no_sense(nothing: Refused, words: list[str], says: str) -> None:
    assert says in nothing("count", *words)


@pytest.mark.needs("valgrind", "allocators")
def test_a_symptom_that_cannot_be_counted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arms = tmp_path / "arms"
    arms.write_text("a=/bin/true\nb=/bin/false\n")
    said = refused(capsys, "bisect", f"--out={tmp_path / 'out'}", f"--arms={arms}", "--symptom=instructions:got")
    assert "--operation=got is not known" in said


def test_a_target_that_is_none_or_is_watched(nothing: Refused) -> None:
    with service(["sleep", "60"]) as process:
        watching = Target([process.pid])
        said = nothing("attach", f"--pid={process.pid}")
        assert f"process {process.pid} is watched by another ioflame" in said
        del watching
        said = nothing("attach", f"--pid={process.pid}", "--count-of", "upsert", "echo 1")
        assert "recognise no such operation, but flush, compaction, multiget, get" in said
    assert "is a kernel thread" in nothing("attach", "--pid=2")
    assert "process 2 has no memory of its own" in nothing("pmp", "--pid=2")
    assert "there is no process" in nothing("attach", f"--pid={process.pid}")
    said = nothing("attach", "--pid=1", "--count=echo no", "--seconds=1")
    assert "--seconds=1 is out of range" in said and "fix: --seconds" in " ".join(said.split())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[view.owner]\ndescription = 'd'\nwalk = 'root'\n", "view.owner: Object missing required field `category`"),
        ("[view.owner]\ncategory = [{label = 'x'}]\n", "view.owner: Object missing required field `name`"),
        ("view = 5\n", "Expected `object`, got `int`"),
        (f"schema = {'[' * 3000}", "nested too deep"),
    ],
)
def test_rules_that_are_none(nothing: Refused, tmp_path: Path, text: str, says: str) -> None:
    rules = tmp_path / "my.toml"
    rules.write_text(text, encoding="ascii")
    with service(["sleep", "60"]) as process:
        said = nothing("attach", f"--pid={process.pid}", f"--rules={rules}")
    assert f"--rules {rules}: " in said and says in said


def test_an_archive_that_is_no_packed_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out, inside = tmp_path / "out.tar.xz", tmp_path / "file"
    inside.write_text("no run")
    with tarfile.open(out, "w:xz") as archive:
        archive.add(inside, "../file")
    for content in (out.read_bytes(), out.read_bytes()[:-20], b"nothing"):
        out.write_bytes(content)
        assert str(out) in refused(capsys, "analyse", out)
    assert {path.name for path in tmp_path.iterdir()} == {"out.tar.xz", "file"}
