"""What each command refuses before anything is started, in words; nothing here needs a right or a program."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from ground.errors import EXIT_OK, EXIT_USAGE, UsageError
from ground.settings import Setting
from ioflame import cli
from ioflame.cli import build_parser
from ioflame.commands.ebpf import help_of
from ioflame.instruments import INSTRUMENTS
from ioflame.instruments.instrument import one_pid
from ioflame.version import version
from tests.ioflame.asked import asked

PROGRAMS = ("iolat", "ladder", "offcpu", "runqlat", "tail", "requests", "writes")
_BENCH = "./db_bench --benchmarks=readrandom --use_existing_db --db=/no/such --duration=60"

# By the words they begin with: further words, and what the message names.
REFUSED: dict[str, list[tuple[str, str]]] = {
    "agent": [("", "required: --config"), ("--config /no/such.toml", "/no/such.toml")],
    "analyse": [("/no/such", "/no/such is no run directory")],
    "attach": [
        (f"{os.getpid()} --record-only --redact", "--record-only and --redact"),
        (f"{os.getpid()} --record-only --every=10m", "--record-only and --every"),
    ],
    "bisect": [
        ("", "bisect needs --repo, --good, --bad"),
        ("--good a", "bisect needs --repo, --good, --bad"),
        ("--arms=x --repo=y", "bisect needs --repo"),
        ("--arms=/no/such --out=out", "--arms /no/such: No such file"),
        ("--arms=x --symptom=speed", "--symptom speed is not known"),
    ],
    "compare -q --out=out": [
        ("", "a comparison is of --arm NAME=BIN"),
        ("--null=sh --factor=threads=1,2", "a comparison is of --arm NAME=BIN"),
        ("--arm=a=sh", "at least two arms"),
        ("--arm=a=sh --arm=a=true", "with different names"),
        ("--arm=a=sh --arm=twin=true", "twin is reserved"),
        ("--arm=a=sh --arm=b=/no/such", "DB_BENCH=/no/such does not exist"),
        ("--arm=a=sh '--arm=b=x y sh'", "expected NAME=CLIENT"),
        ('--arm=a=sh "--arm=b=\'"', "No closing quotation"),
        ("--factor=cache_type=lru_cache", "two or more values"),
        ("--factor=cache_type=lru_cache,none", "CACHE_TYPE=none is not known"),
        ("--factor=block_size=4096,small --db-bench=sh", "not a whole number"),
        ("--null=sh --delta=2", "DELTA=2: '2' is no percentage such as 2%"),
        ("--null=sh --time=soon", "TIME=soon: 'soon': expected a time: seconds"),
        ("--null=sh --sessions=17", "SESSIONS=17 is out of range"),
        ("--null=sh --schedule=fast", "SCHEDULE=fast is not known"),
        ("/no/such", "is not the directory of a comparison"),
        # Arms that are whole command lines.
        (f"'--arm=A={_BENCH}'", "at least two arms"),
        (f"'--arm=A={_BENCH}' --threads=2", "--threads has no effect on arm A, whose command line says it itself"),
        (f"'--arm=A={_BENCH}' --config=byrx", "--config has no effect on arm A"),
        (f"'--arm=A={_BENCH}' --schedule=duet", "--schedule duet: arm A is a whole command line"),
        ("'--arm=A=taskset -c 0 ./db_bench --threads=1'", "arm A: taskset starts another program"),
        ("'--arm=A=./my_bench --fast'", "./my_bench is no db_bench: it is not called so, and has no --benchmarks"),
        (f"'--arm=A={_BENCH.replace('random', 'random,overwrite')}'", "a comparison is of one benchmark"),
        (f"'--arm=A={_BENCH.replace('readrandom', 'readtocache')}'", "readtocache ends by itself"),
        (f"'--arm=A={_BENCH.replace('random', 'missing')}'", "--benchmarks=readmissing is not known here"),
        (f"'--arm=A={_BENCH.replace('--use_existing_db', '')}'", "it has no --use_existing_db"),
    ],
    "count": [
        ("--operation=got", "--operation=got is not known"),
        ("--limit=get", "--limit get: expected an operation with a number"),
        ("--fail-above=1", "FAIL_ABOVE=1: '1' is no percentage such as 2%"),
        ("--repeats=1", "REPEATS=1 is out of range"),
        ("--jobs=0", "--jobs=0 is out of range"),
        ("--engine=postgres", "=postgres is not known"),
        ("--per=main --operation=get -- true", "--operation has no effect on a command"),
    ],
    "doctor": [
        ("--engine nosuch", "ENGINE=nosuch is not known"),
        ("--attach 0", "there is no process 0"),
    ],
    "ebpf": [
        ("ladder --pid 1 --children", "the ladder follows one process"),
        ("runqlat --pid 1 --pid 2", "runqlat looks at one process at a time"),
        ("offcpu --pid 1 --dir /proc", "--dir /proc is not empty"),
        ("iolat --pid 1 --device /no/such", "--device /no/such: No such file"),
        ("requests --pid 1 --database /no/such", "--database /no/such is not a directory"),
        ("requests --pid 1 --reasons -1", "--reasons=-1 is out of range"),
    ],
    "experiment": [("io-efficency", "there is no experiment io-efficency")],
    "experiment io-efficiency": [
        ("--workload fwdrange", "WORKLOAD=fwdrange has no effect on an experiment"),
        ("--threads=6", "THREADS=6 has no effect on an experiment"),
        ("--users=0", "USERS='0' is no list of numbers"),
        ("--repeats=many", "REPEATS=many: 'many' is not a whole number"),
        ("readrandom", "unrecognized arguments: readrandom"),
        ("--user 1 6", "unrecognized arguments: 6"),
    ],
    "explain io-efficiency": [("--workload fwdrange", "WORKLOAD=fwdrange has no effect on an experiment")],
    "history": [("/no/such", "/no/such")],
    "pmp": [
        ("--pid 0", "there is no process 0"),
        ("--pid 1 --hz 0", "--hz"),
        ("--pid 1 --sampler perf", "perf"),
        (f"--pid {os.getpid()} --rules /no/such.toml", "--rules /no/such.toml: No such file"),
    ],
    "profile": [
        ("--scale huge", "SCALE=huge is not known"),
        ("--workload nosuch", "WORKLOAD=nosuch is not known to rocksdb"),
        ("--config=mmap", "CONFIG=mmap is not known"),
        ("--collect perf,all", "all is not known"),
        ("--threads=0", "THREADS=0 is out of range"),
        ("--threads=two", "THREADS=two"),
        ("--num-keys=many", "NUM_KEYS=many"),
        ("--cache-size=12", "CACHE_SIZE=12 is out of range"),
        ("--duration=-5", "DURATION=-5"),
        ("--freq=1000000", "FREQ=1000000"),
        ("--cpus=first", "CPUS=first is no list of CPUs"),
        ("--cpus=0-", "CPUS=0- is no list"),
        ("--cpus=5-3", "CPUS=5-3: 5-3 is no range"),
        ("--cpus=0,99999", "may not run on CPU 99999"),
        ("--callgraph=lbr", "CALLGRAPH=lbr is not known"),
        ("--event=cycles,instructions", "EVENT='cycles,instructions'"),
        ("--event=-a", "EVENT='-a'"),
        ("--tail=2", "TAIL=2 is not known"),
        ("--threshold-us=500", "THRESHOLD_US=500 has no effect"),
    ],
    "rules": [("", "required: VERB"), ("check /no/such", "/no/such is no run directory")],
    "run --out out": [
        ("", "no command was given"),
        ("--seconds 1 -- true", "--seconds=1 is out of range"),
        ("--warm-up -1 -- true", "--warm-up=-1 is out of range"),
        ("--freq 0 -- true", "--freq=0 is out of range"),
        ("--count 'echo 1' --count-symbol f -- true", "each count the queries"),
        ("--collect perf,x -- true", "--collect=perf,x: x is not known"),
        ("-- /no/such/command", "/no/such/command: there is no such file"),
        ("--", "no command was given"),
        ("-- no-such-command-at-all", "there is no such command on PATH"),
        ("-- /etc/passwd", "may not be executed"),
        ("-- /proc", "is a directory"),
        ("--engine none -- true", "--engine none: nothing is known of such a service"),
        ("--rules /no/such.toml -- true", "/no/such.toml"),
        ("--device /no/such -- true", "--device /no/such: there is no such directory"),
        ("--count 'echo no' -- true", "the count failed: the count printed 'no'"),
    ],
    "show": [("/no/such", "/no/such is no run directory")],
    "store": [("sql /no/such 'SELECT 1'", "/no/such"), ("add new /no/such", "there is no /no/such"),
              ("compcat", "(did you mean compact? choose from")],
    "sweep -q --out=out": [
        ("--limit=p98=1ms", "LIMIT=p98=1ms: expected a percentile with a time"),
        ("--limit=p99=0ms", "LIMIT=p99=0ms: expected a percentile"),
        ("--limit=2ms", "LIMIT=2ms: expected a percentile"),
        ("--runs=0", "RUNS=0 is out of range"),
        ("--duration=0", "=0 is out of range"),
        ("--client=db_bench", "=db_bench offers no rate to all threads together"),
        ("/no/such/sweep", "/no/such/sweep/sweep.json cannot be read"),
    ],
    # A misspelt command is answered with the nearest.
    "proifle": [("", "(did you mean profile? choose from")],
    "Show": [("runs/latest", "(did you mean show? choose from")],
    "xyzzy": [("", "(choose from")],
} | {
    f"ebpf {program}": [
        ("--pid 1 --seconds 0", "--seconds=0 is out of range"),
        ("--seconds 5", "required: -p/--pid"),
        ("--pid 0", "there is no process 0"),
        ("--pid x", "'x' is not the number of a process"),
        ("--pid 1 --out /dev/null", "--out /dev/null"),
    ]
    for program in PROGRAMS
}  # fmt: skip


@pytest.mark.parametrize("command", REFUSED)
def test_bad_usage_is_refused_in_words_and_nothing_is_made(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for words, says in REFUSED[command]:
        code, out, err = asked(capsys, *shlex.split(f"{command} {words}"))
        assert (code, out, says in err) == (EXIT_USAGE, "", True), (words, says, err)
        # argparse prints the usage instead.
        assert "fix: " in err or err.startswith("usage: "), (words, err)
        assert not list(tmp_path.iterdir()), words


def arguments_of(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Of a command, and of those below it."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from arguments_of(below)


_ENDLESS = ("inf", "-inf", "nan", "1e99", "9" * 5000)
# What is checked once it is read: TEXT options with the value of another option, or of a file.
_BY_UNIT = {"--cache-size": "profile", "--num-keys": "profile", "--duration": "profile", "--memory": "history x",
            "--time": "compare --null=sh", "--for": "attach --pid 1", "--every": "attach --pid 1",
            "--keep": "attach --pid 1 --every 1m", "--per": "attach --pid 1", "--budget": "attach --pid 1",
            "--limit": "sweep", "--repeats": "experiment io-efficiency", "--users": "experiment io-efficiency",
            "--seed": "compare --null=sh"}  # fmt: skip


def test_a_number_of_any_option_has_a_range() -> None:
    typed = [(one.dest, one.type) for one in arguments_of(build_parser()[0]) if callable(one.type)]
    other = {"metric", "event", *(s.name.lower() for s in Setting for form in s.forms if form.kind == "path")}
    numbers = [(name, kind) for name, kind in typed if kind is not Path and name not in other]
    assert {"seconds", "hz", "warm_up", "jobs", "sample", "width", "pid", "reasons"} <= {name for name, _ in numbers}
    for name, kind in numbers:
        for text in _ENDLESS:
            with pytest.raises((UsageError, argparse.ArgumentTypeError)):
                print(name, text, kind(text))


@pytest.mark.parametrize("option", _BY_UNIT)
def test_sizes_and_times_without_an_end_are_refused(capsys: pytest.CaptureFixture[str], option: str) -> None:
    for text in (*_ENDLESS, "9" * 5000 + ".5"):
        code, _, err = asked(capsys, *_BY_UNIT[option].split(), f"{option}={text}")
        assert code == EXIT_USAGE, (option, text[:9], err[-900:])


def test_a_process_is_given_as_perf_and_bcc_take_it(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("attach 7", "attach -p 7", "attach --pid 7", "attach --seconds 9 7", "pmp -p 7", "ebpf iolat -p 7"):
        words = command.split()
        assert build_parser(words[0])[0].parse_args(words).pid in (7, [7]), command
    assert build_parser("attach")[0].parse_args(["attach", "7", "8", "-p", "9"]).pid == [7, 8, 9]
    code, _, err = asked(capsys, "attach", "x")
    assert code == EXIT_USAGE and "argument PID: 'x' is not the number of a process" in err


def test_each_program_says_what_it_costs_and_shows_an_example() -> None:
    assert {name for name, one in INSTRUMENTS.items() if one.alone is not None} == set(PROGRAMS)
    for name in PROGRAMS:
        parser, _ = build_parser("ebpf")
        arguments = parser.parse_args(["ebpf", name, "--pid", "7"])
        assert (arguments.name, arguments.pid, arguments.seconds) == (name, [7], 10.0)
        assert f"ioflame ebpf {name} --pid" in help_of(name).partition("EXAMPLE")[2]
        assert one_pid(arguments) == 7


def test_which_ioflame_it_is_names_its_commit_where_that_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(capsys, "--version") == (EXIT_OK, f"ioflame {version()}\n", "")
    number, _, commit = version().partition(" ")
    assert number.count(".") == 2 and (not commit or (commit.startswith("(") and commit.endswith(")")))


def test_help_is_given_where_no_word_is_and_has_every_command_in_one_group(capsys: pytest.CaptureFixture[str]) -> None:
    code, text, err = asked(capsys)
    assert (code, err) == (EXIT_OK, "") and text.startswith("usage: ioflame")
    assert asked(capsys, "--help") == (EXIT_OK, text, "")
    known = re.findall(r"'([a-z]+)'", asked(capsys, "no-such-command")[2].partition("choose from")[2])
    assert sorted(name for names in cli._GROUPS.values() for name in names) == sorted(known)
    for name in known:
        assert len(re.findall(rf"^  {name} +\S", text.partition("measure:")[2], re.MULTILINE)) == 1, name
