"""`ioflame compare`: is B slower than A, by how much, and is it real? Arms are run in turns, block by block.

An arm is a release or a library (`--rocksdb 9.10.0,10.4.2`), a client (`--arm NAME=BIN`, with variables of its own
before it: `--arm 'slow=LD_PRELOAD=/x.so db_bench'`), a whole command line of db_bench (`--arm 'A=./db_bench
--benchmarks=... --cache_size=...'`), or a value of one setting (`--factor cache_type=lru_cache,hyper_clock_cache`). The
first is the base. Everything else is alike; what is not is printed, and bars the verdict.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from collectors.repeatable import ALLOCATORS
from ground.errors import EXIT_CHECK_FAILED, EXIT_INTERRUPTED, EXIT_OK, RefusedError, UsageError
from ground.results.comparison import BUILD, COMMAND_LINE, NOTHING, Comparison, ComparisonRun
from ground.results.differences import Outcome
from ground.results.metrics import DECIDING
from ground.results.run import open_run
from ground.results.verdicts import VERDICT
from ground.settings import Setting
from ground.system.process import interruptible
from ground.text.columns import fold_line
from ground.text.file_name import file_name
from ground.text.progress import Reporter, shown_path, terminal_width
from ground.text.ranges import choice, number
from ioflame.analysis.compare.runs import compare_runs
from ioflame.commands.arguments import Commands, add_options, of_arm, parsed
from ioflame.commands.outcome import add_to_asked_store, check_store, kept
from ioflame.measure.compare.arms import TWIN, AskedArm, CompareOptions, PlannedArm
from ioflame.measure.compare.conduct import begin_or_resume_comparison, conduct, count_beside, planned, planned_beside
from ioflame.measure.compare.own_commands import differing_between, workload_of
from ioflame.measure.compare.resolve import resolve_arms
from ioflame.measure.count.plan import PlannedCount, check_installed
from ioflame.measure.options import profile_options
from ioflame.measure.own_command.command_line import program_place
from ioflame.measure.study import refuse_idle
from ioflame.present.comparison_page import counts_beside, unwatched, write_comparison_page
from ioflame.present.comparison_tables import tables_of
from ioflame.stages.comparison import plans_of, verdicts_of
from viz.columns import folded
from viz.tables.relative import agreement_lines, relative_section, render_relative_markdown, render_relative_tsv
from viz.terminal.comparison import comparison_text, plan_text, runs_text
from viz.terminal.table import section_text
from workloads.engines.rocksdb.command_line import CLIENT, bench_command
from workloads.libraries import asked_libraries, names_a_library
from workloads.registry import DEFAULT_ENGINE, engine_named
from workloads.releases import read_releases

_NAME = re.compile(r"[\w.+-]{1,40}")
_VARIABLE = re.compile(r"[A-Za-z_]\w*=")
# Settings that are options of ioflame, by the names of their variables; any other is a flag of the client.
_OPTIONS = ("threads", "cpus", "cache_size", "cache_type", "config")
# A whole command line says these itself.
_IN_THE_COMMAND = ("workload", "config", "client", CLIENT, "db_dir", "num_keys", "cache_size", "cache_type", "tree")
_EXAMPLES = """examples:
  ioflame compare --arm 10.5=/b/10.5/db_bench --arm 10.6=/b/10.6/db_bench --time 40m
  ioflame compare --rocksdb 9.10.0,10.4.2       two releases, without a build
  ioflame compare --rocksdb 9.10.0,10.4.2 --count --time 10m    in time, and in instructions
  ioflame compare --factor cache_type=lru_cache,hyper_clock_cache --config byrx --threads 8
  ioflame compare --arm 'A=./db_bench --my flags' --arm 'B=./db_bench_b --my flags'
                                                your own command lines; flags that differ are printed
  ioflame compare --null db_bench               A/A test: the same client twice, what can this host see?
  ioflame compare --plan --arm ...              what it will take; starts nothing
  ioflame compare runs/20261123T000000-compare-readrandom       a finished one again
"""


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "compare",
        help="two builds or settings in turns: slower or not, by how much",
        description=_EXAMPLES + "\n" + (__doc__ or ""),
    )
    add = parser.add_argument
    add("directories", type=Path, nargs="*", metavar="DIR", help="finished comparisons, or runs, beside each other")
    add(
        "--arm",
        action="append",
        default=[],
        metavar="NAME=BIN",
        help="an arm, a client or a release; two or more, the base first (A, B)",
    )
    add("--null", metavar="BIN", help="A/A test: the same client, or the same release, twice")
    add("--tree", default="", metavar="NAME", help="shared or own (default: shared)")
    add("--seed", metavar="N", help="seed of the order of everything (default: a new one)")
    add("--no-twin", action="store_true", help="without the A/A control, a second process of the base")
    add("--plan", action="store_true", help="print what it will take; start nothing")
    add("--fail-on", choices=("regressed",), help="exit code 1 where an arm regressed")
    add(
        "--table", choices=("tsv", "markdown"), help="ratios to the base as a table for other programs, or for an issue"
    )
    add("--json", action="store_true", help="print every number as JSON")
    add_options(parser, "compare")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    reporter = Reporter(quiet=arguments.quiet)
    if arguments.directories:
        return _read(arguments)
    check_store(arguments.store)
    options = _options(arguments)
    with interruptible():
        names = [name for text in arguments.operation for name in text.split(",")]
        if arguments.count or names:
            check_installed("callgrind", ALLOCATORS[0])
        arms = resolve_arms(options, reporter)
        count = planned_beside(arms, options.factor, names) if arguments.count or names else None
        record = planned(options, arms)
        record.differing = differing_between(arms)
        if arguments.plan:
            return _plan(record)
        study = begin_or_resume_comparison(record, options.base.options.out, arguments.resume)
        if not kept(lambda: _conduct(arms, count, study, reporter), study.directory, reporter, resume=True):
            return EXIT_INTERRUPTED
    code = _print(study, arguments)
    add_to_asked_store(arguments.store, study.directory, reporter)
    return code


def _conduct(arms: Sequence[PlannedArm], count: PlannedCount | None, study: ComparisonRun, reporter: Reporter) -> None:
    conduct(arms, study, reporter)
    if count is not None:
        count_beside(count, study, reporter)


def _read(arguments: argparse.Namespace) -> int:
    """A finished comparison once more, or runs that were made before beside each other."""
    directories = [directory.resolve() for directory in arguments.directories]
    if len(directories) == 1:
        study = ComparisonRun.open(directories[0])
        return _plan(study.record) if arguments.plan else _print(study, arguments)
    if ComparisonRun.is_in(directories[0]):
        return _beside([ComparisonRun.open(directory) for directory in directories], arguments)
    found = compare_runs(
        [open_run(directory).record for directory in directories],
        arguments.delta,
        arguments.factor or "",
    )
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        print(runs_text([shown_path(path) for path in directories], found, terminal_width(sys.stdout)))
        print(found.sentence)
    outcomes = {arm[name].outcome for arm in found.decisions for name in DECIDING if name in arm}
    return EXIT_CHECK_FAILED if arguments.fail_on == "regressed" and Outcome.REGRESSED in outcomes else EXIT_OK


def _beside(comparisons: Sequence[ComparisonRun], arguments: argparse.Namespace) -> int:
    """Several finished comparisons: tests by versions, host by host."""
    found = tables_of([(study.record, verdicts_of(study)) for study in comparisons])
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(found)).decode())
    elif arguments.table == "tsv":
        print(render_relative_tsv(*found.tables), end="")
    elif arguments.table == "markdown":
        print("\n".join(map(render_relative_markdown, found.tables)), end="")
    else:
        width = terminal_width(sys.stdout)
        print("\n\n".join(section_text(relative_section(table), width) for table in found.tables))
        if found.agreements:
            print("\n" + folded("\n".join(agreement_lines(found.agreements)), width))
    return EXIT_OK


def _plan(record: Comparison) -> int:
    print(plan_text(record, plans_of(record), terminal_width(sys.stdout)))
    return EXIT_OK


def _print(study: ComparisonRun, arguments: argparse.Namespace) -> int:
    if lost := unwatched(study):
        print("\n".join(lost), file=sys.stderr if arguments.json or arguments.table else sys.stdout)
    if arguments.table:
        return _beside([study], arguments) or (EXIT_CHECK_FAILED if lost else EXIT_OK)
    found = verdicts_of(study)
    width = terminal_width(sys.stdout)
    counted = counts_beside(study, width)
    page = write_comparison_page(study, found, counted)
    if arguments.json:
        print((study.directory / VERDICT).read_text(encoding="utf-8"), end="")
    else:
        print(comparison_text(study.record, found, width))
        if len(found.arms) > 1:
            for one in tables_of([(study.record, found)]).tables:
                print("\n" + section_text(relative_section(one), width))
        if counted is not None:
            print(f"\n{counted.text}\n\n" + "\n".join(fold_line(line, width or 100, 2) for line in found.counted))
        print(f"comparison:   {shown_path(study.directory)}")
        print(f"report:       {shown_path(page)}")
        print(found.sentence)
    outcomes = {arm.decisions[name].outcome for arm in found.arms for name in DECIDING if name in arm.decisions}
    failed = bool(found.bars or lost) or (arguments.fail_on == "regressed" and Outcome.REGRESSED in outcomes)
    return EXIT_CHECK_FAILED if failed else EXIT_OK


def _options(arguments: argparse.Namespace) -> CompareOptions:
    """The checked options. UsageError for what makes no sense."""
    releases = _releases_as_arms(arguments)
    if (bool(arguments.arm), bool(arguments.factor), bool(arguments.null), bool(releases)).count(True) != 1:
        raise RefusedError(
            "a comparison is of --arm NAME=BIN, twice or more, of several releases, of --factor SETTING=A,B, or of "
            "--null BIN",
            mend=f"ioflame compare --arm old=<a client> --arm new=<another>, or {Setting.ROCKSDB.to('9.10.0,10.4.2')}",
        )
    if releases:
        factor, asked = BUILD, releases
    elif arguments.null:
        options = profile_options(_with_client(arguments, arguments.null))
        factor, asked = NOTHING, [AskedArm(name, arguments.null, options) for name in ("A", "B")]
    elif arguments.factor:
        factor, asked = _factor(arguments)
    else:
        asked = [_arm(arguments, text) for text in arguments.arm]
        factor = COMMAND_LINE if any(arm.bench is not None for arm in asked) else BUILD
    names = [arm.name for arm in asked]
    if len(names) < 2 or len(set(names)) < len(names) or TWIN in names:
        raise RefusedError(
            f"arms {', '.join(names)}: a comparison needs at least two arms with different names ({TWIN} is reserved)",
            mend="--arm a=<a client> --arm b=<another>, or --null <a client> to compare one with itself",
        )
    return CompareOptions(
        arms=tuple(asked),
        factor=factor,
        null=bool(arguments.null),
        schedule=arguments.schedule or "",
        tree=arguments.tree and choice("--tree", arguments.tree, ("shared", "own")),
        delta=arguments.delta,
        sessions=arguments.sessions,
        blocks=arguments.blocks,
        time=arguments.time,
        seed=number("--seed", arguments.seed, int, 0, 1 << 31) if arguments.seed else None,
        twin=not arguments.no_twin,
        relink=arguments.relink or "",
    )


def _releases_as_arms(arguments: argparse.Namespace) -> list[AskedArm]:
    """Several releases or libraries, each an arm; nothing where one is meant for all arms, or none."""
    if not arguments.rocksdb:
        return []
    found = asked_libraries(engine_named(arguments.engine).releases(), arguments.rocksdb)
    if len(found) == 1 and arguments.factor:
        return []
    return [AskedArm(one.name, one.what, profile_options(of_arm(arguments, rocksdb=[one.what]))) for one in found]


def _with_client(arguments: argparse.Namespace, text: str) -> argparse.Namespace:
    """The options of an arm whose build is `text`: a release or a library, which our client opens, or a client."""
    listed = read_releases(engine_named(arguments.engine).file("releases.toml"))
    if listed is not None and not Path(text).is_dir() and names_a_library(listed, text):
        return of_arm(arguments, rocksdb=[text])
    return of_arm(arguments, db_bench=text)


def _arm(arguments: argparse.Namespace, text: str) -> AskedArm:
    """`NAME=[VARIABLE=VALUE ...] BIN`, or with the flags behind it: a whole command line."""
    name, equals, command = text.partition("=")
    try:
        # A path may hold blanks, as any that `make` hands on.
        words = [command] if _is_there(command) else shlex.split(command)
    except ValueError as error:
        raise RefusedError(f"--arm {text}: {error}", mend="--arm 'NAME=<a client, or its command line>'") from None
    place = next((at for at, word in enumerate(words) if not _VARIABLE.match(word)), len(words))
    if equals and _NAME.fullmatch(name) and any(word.startswith("-") for word in words[place + 1 :]):
        return _command_arm(arguments, name, words[:place], words[place:])
    variables = [word for word in words[:-1] if _VARIABLE.match(word)]
    if not equals or not _NAME.fullmatch(name) or not words or len(variables) != len(words) - 1:
        raise RefusedError(
            f"--arm {text}: expected NAME=CLIENT",
            mend="--arm NAME=<a client>, or --arm 'NAME=VARIABLE=VALUE <a client>'",
        )
    environment = dict(word.split("=", 1) for word in variables)
    return AskedArm(name, command, profile_options(_with_client(arguments, words[-1])), environment)


def _is_there(path: str) -> bool:
    try:
        return Path(path).exists()
    except OSError:  # a command line is longer than any name of a file
        return False


def _command_arm(arguments: argparse.Namespace, name: str, variables: list[str], words: list[str]) -> AskedArm:
    """A whole command line. UsageError where what it runs, or what else was asked for, cannot be compared."""
    said = {f"--{one.replace('_', '-')}": getattr(arguments, one) for one in _IN_THE_COMMAND}
    said |= {"--threads": arguments.threads != 1, "--engine": arguments.engine != DEFAULT_ENGINE}
    refuse_idle(said, f"arm {name}, whose command line says it itself")
    if arguments.schedule == "duet":
        raise UsageError(
            f"--schedule duet: arm {name} is a whole command line, whose reads may be of the device",
            means="two at once would wait for each other's reads; nothing was started",
            mend="--schedule frozen",
        )
    if program_place(words):
        raise UsageError(
            f"arm {name}: {words[0]} starts another program",
            means="arms are held on CPUs and stopped in turns by ioflame itself; nothing was started",
            mend="the program first: --cpus LIST instead of taskset, VARIABLE=VALUE before it instead of env",
        )
    bench = bench_command(words, Path.cwd())
    if bench is None:
        raise UsageError(
            f"arm {name}: {words[0]} is no {CLIENT}: it is not called so, and has no --benchmarks",
            means="what counts its queries is not known; nothing was started",
            mend="a command line with --benchmarks; any other program: `ioflame run`, once for each",
        )
    engine = engine_named(arguments.engine)
    options = profile_options(of_arm(arguments, db_bench=words[0], workload=workload_of(engine, bench, name)))
    environment = dict(word.split("=", 1) for word in variables)
    return AskedArm(name, shlex.join(words), options, environment, bench=bench)


def _factor(arguments: argparse.Namespace) -> tuple[str, list[AskedArm]]:
    setting, equals, text = arguments.factor.partition("=")
    setting = setting.lower().replace("-", "_")
    values = [value for value in text.split(",") if value]
    if not equals or not re.fullmatch(r"[a-z]\w*", setting) or len(values) < 2:
        raise RefusedError(
            f"--factor {arguments.factor} is no setting with two or more values", mend="--factor threads=1,8"
        )
    asked = []
    for value in values:
        own = {setting: parsed(Setting[setting.upper()], "compare", value)} if setting in _OPTIONS else {}
        flags = {} if setting in _OPTIONS else {setting: value}
        name = file_name(value)[:40]
        asked.append(AskedArm(name, value, profile_options(of_arm(arguments, **own)), flags=flags))
    return setting, asked
