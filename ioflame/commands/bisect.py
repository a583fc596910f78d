"""`ioflame bisect`: which commit made it slower, when every measurement is noisy and builds take time?

First it is proven that the ends differ on this host. Then the commit whose outcome gives the most information per
minute is measured, beside both ends in one session, until one commit has 99 %.
"""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Callable
from pathlib import Path

from collectors.repeatable import ALLOCATORS
from ground.errors import EXIT_INTERRUPTED, EXIT_OK, RefusedError, UsageError
from ground.results.bisect import BisectRecord, BisectRun
from ground.results.comparison import BUILD
from ground.settings import Setting
from ground.system.process import interruptible
from ground.text.progress import Reporter, shown_path
from ioflame import __version__
from ioflame.commands.arguments import Commands, add_options, of_arm
from ioflame.commands.outcome import add_to_asked_store, check_store, kept
from ioflame.measure.bisect.builds import Builds, commits_between, listed_arms
from ioflame.measure.bisect.compared import Compared, CountedSearch, check_symptom, counted_symptom
from ioflame.measure.bisect.conduct import Measuring, search
from ioflame.measure.compare.arms import AskedArm, CompareOptions
from ioflame.measure.count.plan import CountOptions, check_installed
from ioflame.measure.options import profile_options
from ioflame.measure.study import begin_or_resume
from workloads.libraries import asked_libraries
from workloads.registry import engine_named

# Of a count: it has no random noise, and a range needs at least two.
_REPEATS = 3

_EXAMPLES = """examples:
  ioflame bisect --repo ~/rocksdb --good v10.5.5 --bad v10.6.2 \\
      --build 'make -j2 DEBUG_LEVEL=0 db_bench' --binary db_bench --workload fillseq
  ioflame bisect --rocksdb 9.10.0..10.10.1 --symptom cpuPer  releases, without a build
  ioflame bisect --rocksdb 9.10.0..10.10.1 --symptom instructions:get    counted, not timed: a minute a release
  ioflame bisect --arms list.txt --symptom category:LRU      NAME=BIN a line, the good end first
"""


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "bisect",
        help="which commit made it slower, in spite of noise",
        description=_EXAMPLES + "\n" + (__doc__ or ""),
    )
    add = parser.add_argument
    add("--repo", type=Path, metavar="DIR", help="a git repository")
    add("--good", metavar="COMMIT", help="a commit or version where it was fast")
    add("--bad", metavar="COMMIT", help="a commit or version where it is slow")
    add("--build", metavar="COMMAND", help="builds a commit, in a work tree of its own")
    add("--binary", metavar="PATH", help="the binary that --build leaves in the work tree")
    add("--arms", type=Path, metavar="FILE", help="instead of commits: NAME=BIN a line, in order, the good end first")
    add(
        "--symptom",
        default="qps",
        metavar="NAME",
        help="qps, cpuPer, category:NAME, or instructions:OPERATION[:CATEGORY], which is counted (default: qps)",
    )
    add_options(parser, "bisect")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    reporter = Reporter(quiet=arguments.quiet)
    check_store(arguments.store)
    now = _record(arguments)
    symptom = counted_symptom(now.symptom)
    if symptom is not None:
        check_installed("callgrind", ALLOCATORS[0])
    study = begin_or_resume(BisectRun, now, profile_options(arguments).out, arguments.resume)
    builds = Builds(study, reporter)
    template = CompareOptions(
        (), BUILD, schedule=arguments.schedule or "", sessions=arguments.sessions, blocks=arguments.blocks, twin=False
    )
    measuring: Measuring = Compared(_asked(arguments), template, study.record.symptom, study.directory, reporter)
    if symptom is not None:
        options = CountOptions(arguments.engine, repeats=_REPEATS)
        measuring = CountedSearch(options, symptom, study.directory, reporter)
    with interruptible():
        try:
            ended = kept(lambda: search(study, builds, measuring, reporter), study.directory, reporter, resume=True)
        finally:
            builds.end()
    if not ended:
        return EXIT_INTERRUPTED
    add_to_asked_store(arguments.store, study.directory, reporter)
    for place, why in study.record.skipped.items():
        print(f"skipped:      {study.record.names[int(place)][:12]}: {why}")
    print(f"bisect:       {shown_path(study.directory)}")
    print(study.record.outcome)
    return EXIT_OK


def _record(arguments: argparse.Namespace) -> BisectRecord:
    """UsageError for what makes no sense."""
    symptom = check_symptom(arguments.symptom)
    of_git = [arguments.repo, arguments.good, arguments.bad, arguments.build, arguments.binary]
    given = bool(arguments.arms) + bool(arguments.rocksdb) + any(of_git)
    if given != 1 or (any(of_git) and not all(of_git)):
        raise RefusedError(
            f"bisect needs --repo, --good, --bad, --build and --binary, or --arms, or a range of {Setting.ROCKSDB}",
            mend="ioflame bisect --help",
        )
    created = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    options = {"workload": str(arguments.workload), "config": str(arguments.config), "threads": str(arguments.threads)}
    if arguments.arms or arguments.rocksdb:
        names, binaries = listed_arms(arguments.arms) if arguments.arms else _releases(arguments)
        record = BisectRecord(__version__, created, symptom, names, binaries, options=options)
        record.binaries = {str(place): binary for place, binary in enumerate(binaries)}
        return record
    repository = arguments.repo.resolve()
    names, titles = commits_between(repository, arguments.good, arguments.bad)
    return BisectRecord(
        __version__, created, symptom, names, titles, str(repository), arguments.build, arguments.binary, options
    )


def _releases(arguments: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Names and releases, the good end first."""
    found = asked_libraries(engine_named(arguments.engine).releases(), arguments.rocksdb)
    if len(found) < 2:
        raise UsageError(
            f"{Setting.ROCKSDB.to(found[0].what)} is one release",
            means="a search is between two or more",
            mend=Setting.ROCKSDB.to(f"{shlex.quote(found[0].what)}..<a later one>"),
        )
    return [one.name for one in found], [one.what for one in found]


def _asked(arguments: argparse.Namespace) -> Callable[[str, Path], AskedArm]:
    def arm(name: str, binary: Path) -> AskedArm:
        build = {"rocksdb": [str(binary)]} if arguments.rocksdb else {"db_bench": str(binary)}
        return AskedArm(name, str(binary), profile_options(of_arm(arguments, **build)))

    return arm
