"""The user's words: which program they start behind sudo, taskset and the like, and what has to be added to them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ground.errors import RefusedError, UsageError
from ground.results.command_run import CommandRun
from ground.text.nearest import did_you_mean
from ground.text.progress import Reporter
from workloads.counted_clients import CountedClient, client_of, read_client
from workloads.engines.rocksdb.command_line import CLIENT, EXAMPLE, REPORT, BenchCommand, bench_command

# Programs that start another one, which their words name; of their options those that take a word of their own.
_STARTERS = {
    "sudo": "CDghpRrTtUu", "doas": "Cu", "taskset": "", "numactl": "CNimpP", "env": "CSu", "nice": "n", "time": "fo",
    "ionice": "cnpPu", "chrt": "TPDp", "stdbuf": "ioe", "setsid": "", "nohup": "", "timeout": "ks", "prlimit": "p",
    "setarch": "", "cgexec": "g", "runuser": "u", "setpriv": "", "systemd-run": "pGu", "strace": "eopPsS",
}  # fmt: skip
# Of these the first words are values and no program: a mask, a priority, a time.
_VALUES_FIRST = {"taskset": 1, "chrt": 1, "timeout": 1}
# They run a program as somebody else, who cannot write where we do: always, or where a user is named.
_OTHER_USERS = {"runuser", "setpriv", "systemd-run"}
_OF_A_USER = re.compile(r"-\w*u.*|--user(=.*)?")
_NODES = re.compile(r"[\d,+!-]+|all|same")
_INTERPRETERS = re.compile(
    r"(ba|da|z|k|fi|a)?sh|python[\d.]*|perl[\d.]*|ruby[\d.]*|g?make|ninja|xargs|parallel|node|tclsh"
)


@dataclass(frozen=True)
class StartedCommand:
    """argv: as it was given; place: of the program in it, behind what starts it

    bench:   what it says to db_bench; None where it starts no db_bench itself
    script:  it is a script, or what runs one: others work, and it waits for them
    as_user: it may run as somebody else
    client:  another client, whose queries can be counted
    takes:   options of it may be added to the words
    """

    argv: Sequence[str]
    place: int
    bench: BenchCommand | None
    script: bool
    as_user: bool
    client: CountedClient | None = None
    takes: bool = True

    @property
    def program(self) -> str:
        """Its name, without the directory."""
        return Path(self.argv[self.place]).name

    @property
    def words(self) -> Sequence[str]:
        """The words after the program."""
        return self.argv[self.place + 1 :]

    @property
    def called(self) -> str | None:
        """The function that runs once a query, of a client that prints nothing."""
        return self.client.function(self.words) if self.client is not None else None


def checked_command(words: Sequence[str], client: str | None = None) -> StartedCommand:
    """UsageError where there is no program of that name, or it may not be executed.

    client: what counts its queries, by its name or file; None: as its words tell
    """
    argv = _split(list(words[1:] if words[:1] == ["--"] else words))
    if not argv:
        raise RefusedError("no command was given", mend=EXAMPLE)
    _check_program(argv[0])
    place = program_place(argv)
    starters = {Path(word).name for word in argv[:place]}
    named_user = bool({"sudo", "doas"} & starters) and any(map(_OF_A_USER.fullmatch, argv[:place]))
    program = shutil.which(argv[place]) or argv[place]
    script = bool(_INTERPRETERS.fullmatch(Path(program).name)) or _head(program).startswith(b"#!")
    bench = bench_command(argv[place:], Path.cwd())
    named = CLIENT in Path(program).name
    # --benchmarks of a script is an option of its own, unless the script is named like db_bench.
    if bench is not None and not named and (script or _head(program) != b"\x7fELF"):
        bench = None
    counted = _counted(argv[place:], client) if bench is None or client is not None else None
    if client is not None:
        bench = None
    as_user = named_user or bool(starters & _OTHER_USERS)
    # To a script of the user's, which starts the client somewhere, its options mean nothing.
    takes = counted is None or not script or any(map(counted.is_named, _names(argv[place:])))
    return StartedCommand(argv, place, bench, script and bench is None, as_user, counted, takes)


def _counted(words: Sequence[str], named: str | None) -> CountedClient | None:
    """The client that a command is, without what starts it."""
    if named is not None:
        client = read_client(named)
        if not client.counts(words[1:]):
            raise UsageError(
                f"--client {named}: it does not say how the queries of this command are counted",
                means=f"it has words = {client.words}, without = {client.without}; nothing was started",
                mend="another command, or a file of your own: --client <FILE.toml>",
            )
        return client
    found = (client_of(name, words[1:]) for name in _names(words))
    return next((one for one in found if one is not None), None)


def _names(words: Sequence[str]) -> list[str]:
    """What a command may be called after: its program, a script, a class of Java."""
    name = Path(words[0]).name
    if _INTERPRETERS.fullmatch(name):
        return [Path(word).name for word in words[1:] if not word.startswith("-")][:1]
    return list(words[1:]) if name == "java" else [name]


def _split(argv: list[str]) -> list[str]:
    """A command line in one word, as make has it, in its words; variables before it are set by env."""
    if len(argv) != 1 or not re.search(r"\s", argv[0]) or shutil.which(argv[0]):
        return argv
    try:
        words = shlex.split(argv[0])
    except ValueError as error:
        raise RefusedError(f"{argv[0]}: {error}", mend="ioflame run -- and each word by itself") from None
    return ["env", *words] if words and re.match(r"\w+=", words[0]) else words


def program_place(argv: Sequence[str]) -> int:
    """The place in a command line of the program that does the work, after those that only start it."""
    place = 0
    while place < len(argv) and (takes := _STARTERS.get(Path(argv[place]).name)) is not None:
        found = _behind(argv, place, takes)
        if found >= len(argv):
            break
        place = found
    return place


def _behind(argv: Sequence[str], place: int, takes: str) -> int:
    """The place of what a starter starts. takes: its options that take a word"""
    values = _VALUES_FIRST.get(Path(argv[place]).name, 0)
    place += 1
    while place < len(argv):
        word = argv[place]
        if word == "--":
            return place + 1
        if word.startswith("-") and len(word) > 1:
            place += 2 if len(word) == 2 and word[1] in takes else 1
            # `numactl --cpunodebind 0`
            if word.startswith("--") and place < len(argv) and _NODES.fullmatch(argv[place]):
                place += 1
            continue
        if re.fullmatch(r"\w+=.*", word, re.DOTALL):  # of env, and of sudo
            place += 1
            continue
        if values:
            values -= 1
            place += 1
            continue
        return place
    return place


def _head(program: str) -> bytes:
    try:
        with Path(program).open("rb") as file:
            return file.read(4)
    except OSError:
        return b""


def _check_program(name: str) -> None:
    if shutil.which(name) is not None:
        return
    path = Path(name)
    if "/" in name and path.is_file():
        raise RefusedError(
            f"{name} may not be executed", mend=f"{shlex.join(['chmod', '+x', name])}, or: {shlex.join(['bash', name])}"
        )
    if "/" in name:
        beside = [one.name for one in path.parent.iterdir()] if path.parent.is_dir() else []
        what = f"{name} is a directory" if path.is_dir() else f"{name}: there is no such file"
        near = did_you_mean(path.name, beside).strip()
        raise RefusedError(f"{what}; {near}" if near else what, mend=shlex.join(["ls", str(path.parent)]))
    here = path.is_file() and os.access(path, os.X_OK)
    raise RefusedError(
        f"{name}: there is no such command on PATH",
        mend=shlex.join([f"./{name}"]) if here else shlex.join(["type", "-a", name]),
    )


def added_words(
    command: StartedCommand, home: CommandRun, reporter: Reporter, *, untouched: bool, counted: bool
) -> tuple[Sequence[str], Path | None]:
    """The added words, which are printed, and the report that db_bench will write, ours or its own.

    counted: something else counts its queries
    """
    bench = command.bench
    if command.client is not None:
        return _added_to_client(command, command.client, home, reporter, untouched=untouched, counted=counted), None
    if bench is None:
        return [], None
    report = home.directory / REPORT
    missing = bench.missing(report)
    if command.as_user:
        missing = [word for word in missing if not word.startswith("--report")]
    if "report_file" in bench.flags:
        report = bench.place / bench.flags["report_file"]
    counts = bench.report is not None or not (untouched or command.as_user)
    if not counts and not counted:
        why = "--untouched" if untouched else f"{CLIENT} runs as another user, who may not write where runs are kept"
        reporter.warn(
            f"{why}: it writes no report, so its queries are not counted: there are shares, cores and us per storage "
            "read, and benchmarks of one command are not told apart; --count-symbol FUNCTION counts its calls"
        )
    if untouched or not missing:
        return [], bench.report
    reporter.line(f"added to the command: {shlex.join(missing)}   (--untouched adds nothing)")
    home.record.added = list(missing)
    home.save()
    return missing, bench.report or (report if counts else None)


def _added_to_client(
    command: StartedCommand,
    client: CountedClient,
    home: CommandRun,
    reporter: Reporter,
    *,
    untouched: bool,
    counted: bool,
) -> Sequence[str]:
    missing = client.missing(command.words) if command.takes else []
    # A script places its own words: nothing is put before a script.
    before = client.before if client.line and not command.script else []
    if counted or not client.line:
        return []
    if untouched:
        why = f"without {shlex.join(missing)} it prints no progress" if missing else "its output is left alone"
        reporter.warn(
            f"--untouched: {why}, so its queries are not counted: there are shares, cores and us per storage read"
        )
        return []
    if missing or before:
        said = [f"{shlex.join(before)} (before the program)"] * bool(before) + [shlex.join(missing)] * bool(missing)
        reporter.line(f"added to the command: {' and '.join(said)}   (--untouched adds nothing)")
        home.record.added = [*before, *missing]
        home.save()
    return missing


def command_line(command: StartedCommand, added: Sequence[str], *, read: bool) -> list[str]:
    """All words, as they are started. read: the lines that it prints are"""
    argv = list(command.argv)
    if read and command.client is not None and not command.script:
        argv[command.place : command.place] = command.client.before
    return [*argv, *added]
