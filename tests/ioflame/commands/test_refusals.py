"""What each command refuses before anything is started, in words; nothing here needs a right or a program."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from ground.errors import EXIT_OK, EXIT_USAGE
from ioflame.cli import build_parser, main
from ioflame.instruments import INSTRUMENTS
from ioflame.instruments.offcpu import one_pid
from ioflame.version import version


def refused(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    """What is said of a command line that is bad usage."""
    try:
        code: object = main(words)
    except SystemExit as ended:  # argparse's own
        code = ended.code
    out, err = capsys.readouterr()
    assert (code, out) == (EXIT_USAGE, "")
    return err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--pid 1 --seconds 0", "--seconds 0.0 is not a length of time"),
        ("--seconds 5", "required: --pid"),
        ("--pid 0", "there is no process 0"),
        ("--pid x", "'x' is not the number of a process"),
        ("--pid 1 --out /dev/null", "--out /dev/null"),
    ],
)
@pytest.mark.parametrize("program", ["iolat", "ladder", "offcpu", "runqlat", "tail", "whose", "writes"])
def test_a_program_by_itself_wants_a_process_a_time_and_a_new_file(
    capsys: pytest.CaptureFixture[str], program: str, words: str, says: str
) -> None:
    assert says in refused(capsys, ["ebpf", program, *shlex.split(words)])


def test_programs_that_look_at_one_process_refuse_several(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "the ladder follows one process" in refused(capsys, ["ebpf", "ladder", "--pid", "1", "--children"])
    assert "runqlat looks at one process at a time" in refused(capsys, ["ebpf", "runqlat", "--pid", "1", "--pid", "2"])
    (tmp_path / "file").touch()
    told = refused(capsys, ["ebpf", "offcpu", "--pid", "1", "--dir", str(tmp_path)])
    assert f"--dir {tmp_path} is not empty" in told
    told = refused(capsys, ["ebpf", "iolat", "--pid", "1", "--device", "/no/such"])
    assert "--device /no/such: No such file" in told
    told = refused(capsys, ["ebpf", "whose", "--pid", "1", "--database", "/no/such"])
    assert "--database /no/such is no directory" in told
    told = refused(capsys, ["ebpf", "whose", "--pid", "1", "--reasons", "-1"])
    assert "--reasons -1 is no number of requests" in told


def test_each_program_says_what_it_costs_and_shows_an_example() -> None:
    programs = {name: one.alone for name, one in INSTRUMENTS.items() if one.alone is not None}
    assert set(programs) == {"iolat", "ladder", "offcpu", "runqlat", "tail", "whose", "writes"}
    for name, program in programs.items():
        parser, _ = build_parser("ebpf")
        arguments = parser.parse_args(["ebpf", name, "--pid", "7"])
        assert (arguments.name, arguments.pid, arguments.seconds) == (name, [7], 10.0)
        assert f"ioflame ebpf {name} --pid" in program.example and program.overhead.strip()
        assert one_pid(arguments) == 7


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["agent"], "required: --config"),
        (["agent", "--config", "/no/such.toml"], "/no/such.toml"),
        (["doctor", "--engine", "nosuch"], "ENGINE=nosuch is not known"),
        (["doctor", "--threads", "0"], "THREADS=0 is out of range"),
        (["doctor", "--attach", "0"], "there is no process 0"),
        (["pmp", "--pid", "0"], "there is no process 0"),
        (["pmp", "--pid", "1", "--hz", "0"], "--hz"),
        (["pmp", "--pid", "1", "--sampler", "perf"], "perf"),
        (["profile", "--scale", "huge"], "SCALE=huge is not known"),
        (["profile", "--workload", "nosuch"], "WORKLOAD=nosuch is not known to rocksdb"),
        (["profile", "--collect", "perf,all"], "all is not known"),
        (["rules"], "required: VERB"),
        (["rules", "check", "/no/such"], "/no/such is no run directory"),
        (["analyse", "/no/such"], "/no/such is no run directory"),
        (["show", "/no/such"], "/no/such is no run directory"),
        (["history", "/no/such"], "/no/such"),
        (["store", "sql", "/no/such", "SELECT 1"], "/no/such"),
        (["bisect", "--good", "a"], "bisect needs --repo, --good, --bad"),
    ],
)
def test_bad_usage_is_refused_in_words(capsys: pytest.CaptureFixture[str], words: list[str], says: str) -> None:
    assert says in refused(capsys, words)


def test_which_ioflame_it_is_names_its_commit_where_that_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code in (None, EXIT_OK) and capsys.readouterr().out == f"ioflame {version()}\n"
    number, _, commit = version().partition(" ")
    assert number.count(".") == 2 and (not commit or (commit.startswith("(") and commit.endswith(")")))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "no command was given"),
        (["--seconds", "1", "--", "true"], "--seconds 1 is out of range"),
        (["--warm-up", "-1", "--", "true"], "--warm-up -1 is out of range"),
        (["--freq", "0", "--", "true"], "--freq=0 is out of range"),
        (["--count", "echo 1", "--count-symbol", "f", "--", "true"], "each count the queries"),
        (["--collect", "perf,x", "--", "true"], "--collect=perf,x: x is not known"),
        (["--", "/no/such/command"], "/no/such/command: there is no such file"),
        (["--engine", "none", "--", "true"], "--engine none: nothing is known of such a service"),
        (["--rules", "/no/such.toml", "--", "true"], "/no/such.toml"),
        (["--device", "/no/such", "--", "true"], "--device /no/such: there is no such directory"),
        (["--count", "echo no", "--", "true"], "the count failed: the count printed 'no'"),
    ],
)
def test_a_command_that_makes_no_sense_is_not_started(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], says: str
) -> None:
    assert says in refused(capsys, ["run", "--out", str(tmp_path / "runs"), *words])
    assert not (tmp_path / "runs").exists()
