"""The options of the commands, in one list: what each is called, what it means, and which commands take it.

argparse, the variables of the Makefile (which runs this file), `make help`, the table of
docs/usage.md and the messages of a refusal are made from `Setting`. An option that one command alone takes, and that is
no variable, stays with its command.

A message names a setting with its value, `Setting.CALLGRAPH.to("dwarf")`; data files write `{CALLGRAPH=dwarf}`. Whoever
ran `make profile` reads CALLGRAPH=dwarf, whoever ran `ioflame profile` --callgraph=dwarf, and whoever attached to a
service the option of `ioflame attach`, which has fewer.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

# The commands that run a workload of ours.
_WORKLOAD = "profile doctor explain experiment compare sweep bisect"
# Commands that targets of the Makefile run.
TARGETS = ("profile", "doctor", "run", "experiment", "compare", "count", "sweep")


class FrontEnd(Enum):
    """Who asked, and so in whose words it is answered."""

    MAKE = "make"
    COMMAND = "command"
    ATTACH = "attach"


# The Makefile says that it is there.
_front_end = FrontEnd.MAKE if os.environ.get("IOFLAME_BY") == "make" else FrontEnd.COMMAND


@contextlib.contextmanager
def worded_for(front_end: FrontEnd | None) -> Iterator[None]:
    """Text that is made meanwhile is for this one; None: for whom it was."""
    global _front_end  # noqa: PLW0603 - threads of ours are answered by the same
    before, _front_end = _front_end, front_end or _front_end
    try:
        yield
    finally:
        _front_end = before


class Option(NamedTuple):
    """A setting as some commands take it.

    commands: parted by blanks; metavar: what its value is called, "" where it has none
    help:     {instruments}, {observing} and {services} are filled in by who adds it to a parser
    default:  the value that stands for none, as it is typed; shown: that value in the help, where it is another text
    kind:     how the value is read (`ioflame.commands.arguments`); least, most: of a number; choices: of a choice
    example:  of a value, for what is refused
    flags:    where they are not the setting's name; several: it may be given several times
    variable: whether a target of the Makefile takes it as a variable
    """

    commands: str
    metavar: str
    help: str
    default: str = ""
    shown: str = ""
    kind: str = "text"
    least: float = 0
    most: float = 0
    choices: tuple[str, ...] = ()
    example: str = ""
    flags: tuple[str, ...] = ()
    several: bool = False
    variable: bool = True


class Setting(Enum):
    """An option, and the variable of the Makefile of the same name; one `Option` for each way commands take it."""

    WORKLOAD = Option(_WORKLOAD, "NAME", "what runs", shown="the engine's first: readrandom")
    ENGINE = (
        Option(f"{_WORKLOAD} count", "NAME", "which engine: rocksdb, leveldb, lmdb", "rocksdb"),
        Option("list", "NAME", "which engine", "rocksdb", variable=False),
        Option("attach top run", "NAME", "whose rules: {services}", shown="what its files tell", variable=False),
    )
    DB_BENCH = Option(
        f"{_WORKLOAD} count", "PATH", "any build of the client: db_bench, or ours", shown="the one on PATH"
    )
    ROCKSDB = Option(
        f"{_WORKLOAD} count",
        "WHAT",
        "a release (10.4.2), a librocksdb.so or a .jar, or NAME= before it, instead of a db_bench; several to compare, "
        "A..B for a range (`ioflame rocksdb list`)",
        several=True,
    )
    CLIENT = (
        Option(_WORKLOAD, "NAME", "what drives it: db_bench or ioflame", shown="the engine's first"),
        Option("run", "NAME", "whose lines count the queries: {clients}, or FILE.toml", variable=False),
    )
    SCALE = Option(
        _WORKLOAD,
        "NAME",
        "keys, cache and seconds: smoke (1 M keys), default (10 M) or full (1,000 M, 420 GB)",
        "default",
    )
    CONFIG = Option(
        _WORKLOAD,
        "NAME",
        "how the database reads: iodir, iodir_noalign, iobuf, byrx, byrx_oneshard; of other engines `ioflame list`",
        shown="the engine's first: iodir",
    )
    DB_DIR = Option(
        _WORKLOAD,
        "DIR",
        "the database's directory: loaded once; one of other settings is refused, never overwritten",
        kind="path",
        shown="db/<engine>-<keys>",
    )
    THREADS = Option(_WORKLOAD, "N", "reading threads", "1", kind="whole", least=1, most=4096)
    CPUS = Option(
        _WORKLOAD, "LIST", "hold the workload on these, e.g. 0-3,8", kind="cpus", shown="the scheduler's choice"
    )
    NUM_KEYS = Option(
        _WORKLOAD, "N", "keys of 20 + 400 bytes in the database, e.g. 10M", kind="count", least=1_000, most=10**12,
        shown="by scale",
    )  # fmt: skip
    CACHE_SIZE = Option(
        _WORKLOAD, "SIZE", "block cache, e.g. 128M", kind="size", least=1 << 20, most=1 << 50,
        shown="by scale, and at most a 20th of the data",
    )  # fmt: skip
    CACHE_TYPE = Option(
        _WORKLOAD,
        "NAME",
        "block cache: lru_cache, hyper_clock_cache (7.7 on), auto_hyper_clock_cache (8.6 on)",
        shown="the engine's first: lru_cache",
    )
    MEMORY_LIMIT = Option(
        _WORKLOAD, "SIZE", "bound of the workload and of the page cache that it fills, for buffered reads",
        kind="size", least=1 << 20, most=1 << 50,
    )  # fmt: skip
    DURATION = (
        Option(_WORKLOAD, "SECONDS", "seconds each one watches", kind="whole", least=1, most=86_400, shown="by scale"),
        Option("attach", "S", "total length of all windows", "60", kind="number", least=5.0, most=86_400.0,
               flags=("--seconds",), variable=False),
        Option("run", "S", "all windows together", kind="number", least=5.0, most=86_400.0, flags=("--seconds",),
               shown="--duration of db_bench, else 60", variable=False),
    )  # fmt: skip
    EVENT = Option(
        f"{_WORKLOAD} attach top run", "NAME", "perf event, or a group: '{cycles,instructions}'", "auto", kind="event",
        shown="auto: cycles, else cpu-clock",
    )  # fmt: skip
    FREQ = (
        Option(f"{_WORKLOAD} run", "HZ", "samples a second and CPU", "999", kind="whole", least=1, most=20_000),
        Option("attach", "HZ", "samples a second and CPU", kind="whole", least=1, most=20_000,
               shown="49 of a service, 999 of a benchmark"),
        Option("top", "HZ", "samples a second and CPU", "99", kind="whole", least=1, most=20_000, variable=False),
    )  # fmt: skip
    CALLGRAPH = (
        Option(_WORKLOAD, "MODE", "how stacks are recorded: auto, fp or dwarf", "auto", kind="choice",
               choices=("auto", "fp", "dwarf"), shown="auto: by a trial of a second"),
        Option("attach run", "MODE", "fp, or dwarf, which copies stacks", "fp", kind="choice", choices=("fp", "dwarf"),
               variable=False),
        Option("pmp", "MODE", "how callers are found: dwarf or fp", "dwarf", kind="choice", choices=("dwarf", "fp"),
               variable=False),
    )  # fmt: skip
    COLLECT = (
        Option(_WORKLOAD, "NAMES", "what watches, in turns: any of {instruments}", kind="instruments",
               shown="by scale"),
        Option("attach run", "NAMES", "any of {instruments}", kind="instruments", shown="{observing}"),
    )  # fmt: skip
    LADDER_SAMPLE = Option(
        _WORKLOAD, "N", "the ladder follows one query in N", "8", kind="whole", least=1, most=1_000_000
    )
    TAIL = (
        Option(_WORKLOAD, "1", "a window of records of single queries: why the slowest are slow; force: at any cost",
               kind="choice", choices=("1", "force")),
        Option("attach", "", "records of single queries as well: why the slowest are slow; of calls of --count-symbol, "
               "else RocksDB's", variable=False),
    )  # fmt: skip
    THRESHOLD_US = Option(
        _WORKLOAD, "US", "with TAIL: a query of so many us is a slow one", kind="whole", least=1, most=10**9,
        shown="the slowest 1 %",
    )  # fmt: skip
    FACTOR = Option(
        "compare",
        "SETTING=A,B",
        "arms by a setting: threads, cpus, cache_size, cache_type, config, or a flag of the client",
    )
    DELTA = Option(
        "compare",
        "PART",
        "the smallest difference that matters",
        "2%",
        kind="percent",
        least=1e-6,
        most=0.999,
        example="2%",
    )
    TIME = Option("compare", "TIME", "time limit, e.g. 40m", kind="time", least=0.001, most=30 * 86_400, example="40m",
                  shown="until decided")  # fmt: skip
    SESSIONS = (
        Option("compare", "N", "sessions at most", "16", kind="whole", least=1, most=16),
        Option("bisect", "N", "sessions at most, to prove that the ends differ", "16", kind="whole", least=1, most=16),
    )
    BLOCKS = (
        Option("compare", "N", "blocks of a session", kind="whole", least=1, most=1000, shown="two for each arm"),
        Option("bisect", "N", "blocks of a session of that proof", kind="whole", least=1, most=1000, shown="4"),
    )
    SCHEDULE = (
        Option("compare", "NAME", "frozen, process, duet", kind="choice", choices=("frozen", "process", "duet"),
               shown="by the workload"),
        Option("bisect", "NAME", "frozen or process", kind="choice", choices=("frozen", "process", "duet"),
               shown="by the workload"),
    )  # fmt: skip
    USERS = Option("experiment explain", "LIST", 'threads of each step, "1 6"', "1", kind="users")
    REPEATS = (
        Option("experiment explain", "N", "how often each step or cell is measured", kind="whole", least=1, most=1024,
               shown="1, of cells by scale"),
        Option("count", "N", "counts of each arm, each at other addresses", "5", kind="whole", least=2, most=5),
    )  # fmt: skip
    OPERATION = (
        Option("compare", "NAME", "as --count, and what is counted", several=True),
        Option("count", "NAME", "what is counted, several by commas", several=True, shown="all"),
    )
    RELINK = Option("compare", "CMD", "links every arm anew for every session, with another order of its functions")
    RESUME = Option("experiment compare bisect", "DIR", "resume what is in DIR", kind="path")
    BY = Option("count", "NAME", "counter: callgrind, or the processor where it has counters (in seconds, without "
                "categories)", "callgrind", kind="choice", choices=("callgrind", "processor"))  # fmt: skip
    ALLOCATOR = Option("count", "NAME", "allocator that is loaded: jemalloc or libc", "jemalloc", kind="choice",
                       choices=("jemalloc", "libc"))  # fmt: skip
    BASELINE = Option("count", "DIR", "an earlier count, whose first arm is the base", kind="path")
    FAIL_ABOVE = Option(
        "count",
        "N%",
        "exit code 1 where an operation takes so much more than the base",
        kind="percent",
        least=1e-6,
        most=0.999,
        example="1%",
    )
    LIMIT = (
        Option("count", "OP=N", "exit code 1 where an operation takes more than N", several=True),
        Option("sweep", "P=TIME", "what a rate has to keep, of p50, p99, p99_9: p99=2ms"),
    )
    RUNS = Option("sweep", "N", "rates at most, each twice --duration", "8", kind="whole", least=1, most=50)
    ARRIVALS = Option("sweep", "NAME", "how queries come: poisson, at random, or fixed", "poisson", kind="choice",
                      choices=("poisson", "fixed"))  # fmt: skip
    STORE = Option(f"{_WORKLOAD} run", "DIR", "add what was measured to the store in DIR (`ioflame store --help`)")
    OUT = Option(f"{_WORKLOAD} attach top run count pmp", "DIR", "where run directories go", "runs", kind="path")

    # Of these the Makefile knows nothing.
    QUIET = Option(f"{_WORKLOAD} attach run analyse count pmp", "", "no progress, only results and warnings",
                   flags=("-q", "--quiet"), variable=False)  # fmt: skip
    VERBOSE = Option("profile attach top run analyse", "", "print the whole summary, not one screen of it",
                     flags=("-v", "--verbose"), variable=False)  # fmt: skip
    ALLOW_HOST_CHANGES = Option(
        _WORKLOAD, "", "with buffered reads: drop the page cache before the workload starts (as root)", variable=False
    )
    RULES = Option("attach top run", "FILE", "categories of your own, instead", kind="path", variable=False)
    COUNT = (
        Option("compare", "", "count instructions of what the workload does as well, beside the times"),
        Option("attach top run", "CMD", "a command that prints how many queries were finished, one growing number",
               variable=False),
    )  # fmt: skip
    RECORD_ONLY = Option("attach", "", "record and pack: nothing is analysed on this host; the archive is for another",
                         variable=False)  # fmt: skip
    COUNT_SYMBOL = Option("attach top run", "FUNCTION",
                          "the same by a uprobe for a second in 30: rocksdb::DBImpl::GetImpl",
                          variable=False)  # fmt: skip
    DEVICE = Option("attach top run", "DIR", "a directory on its device", kind="path",
                    shown="where most open files are", variable=False)  # fmt: skip
    MEMORY = Option("store history", "SIZE", "at most, the rest on disk in TMPDIR", kind="size", least=1 << 28,
                    most=1 << 50, shown="the host's", variable=False)  # fmt: skip

    def __init__(self, *_: object) -> None:
        # One is a tuple itself, which Enum unpacks.
        self.forms: tuple[Option, ...] = (self.value,) if isinstance(self.value, Option) else self.value

    def form(self, command: str) -> Option | None:
        """As a command takes it; None where it does not."""
        return next((form for form in self.forms if command in form.commands.split()), None)

    @property
    def known(self) -> bool:
        """Whether whoever asked has it."""
        return _front_end is not FrontEnd.ATTACH or self.form("attach") is not None

    @property
    def is_variable(self) -> bool:
        return any(form.variable for form in self.forms)

    def flags(self, form: Option) -> tuple[str, ...]:
        return form.flags or (f"--{self.name.lower().replace('_', '-')}",)

    def __str__(self) -> str:
        if not self.known or (_front_end is FrontEnd.MAKE and self.is_variable):
            return self.name
        return self.flags((self.form("attach") if _front_end is FrontEnd.ATTACH else None) or self.forms[0])[-1]

    def to(self, value: object) -> str:
        """The setting with a value, as the user types it."""
        return f"{self}={value}"

    def where_known(self, advice: str) -> str:
        """The advice; "" for whoever has no such setting."""
        return advice if self.known else ""


def options_of(command: str) -> Iterator[tuple[Setting, Option]]:
    """What a command takes, in the order of its help."""
    return ((setting, form) for setting in Setting if (form := setting.form(command)) is not None)


def words_of_make(command: str) -> list[str]:
    """The variables that a target of the Makefile was given, as words of the command line that it runs.

    They are taken out of the environment: what the command starts has none of them. Nothing where no make asked.
    """
    if _front_end is not FrontEnd.MAKE:
        return []
    given = {setting: os.environ.pop(setting.name, "") for setting in Setting if setting.is_variable}
    taken = ((setting, form) for setting, form in options_of(command) if form.variable and given[setting].strip())
    return [setting.flags(form)[-1] + (f"={given[setting]}" if form.metavar else "") for setting, form in taken]


# No figure depends on them: they may differ where a study is resumed, and between runs that are compared.
OF_NO_FIGURE = (Setting.OUT.name.lower(), Setting.QUIET.name.lower())
_PLACE = re.compile(r"\{([A-Z][A-Z_]+)(?:=([^}]*))?\}")


def worded(advice: str) -> str:
    """Advice of a data file, without those parts (parted by `; `) that take a setting which nobody here has."""
    parts = (part for part in advice.split("; ") if all(Setting[found[1]].known for found in _PLACE.finditer(part)))
    return _PLACE.sub(lambda found: _said(Setting[found[1]], found[2]), "; ".join(parts))


def _said(setting: Setting, value: str | None) -> str:
    return str(setting) if value is None else setting.to(value)


def variables(command: str) -> list[str]:
    """Of the target of the Makefile that runs this command."""
    return [setting.name for setting, form in options_of(command) if form.variable]


def _help_of_make() -> Iterator[str]:
    """The variables by target, for `make help`."""
    profile = variables("profile")
    yield f"variables of profile and doctor (docs/usage.md): {' '.join(profile)}"
    for command, own in (("experiment", "EXPERIMENT "), ("compare", "A B "), ("sweep", "")):
        yield f"and of {command}: {own}{' '.join(name for name in variables(command) if name not in profile)}"
    for command, own in (("run", "CMD "), ("count", "")):
        yield f"of {command}: {own}{' '.join(variables(command))}"


# python3 of any age runs it, without a package: the Makefile asks for its variables.
if __name__ == "__main__":
    if sys.argv[1:]:
        import textwrap

        for line in _help_of_make():
            print(textwrap.fill(line, 92, initial_indent="  ", subsequent_indent="    "))
    else:
        print(*(setting.name for setting in Setting if setting.is_variable))
