"""`ioflame count`: what a Get, a Put, a compaction costs in instructions: without noise, under any load, without a PMU.

The program runs under valgrind's callgrind, ten times as slow or more, on a small tree; two counts of one build agree
within 0.01 %. So a change of a tenth of a percent is seen in a minute, on any host. How long it takes is not counted:
`ioflame compare` measures that.
"""

from __future__ import annotations

import argparse
import re
import sys

from ground.errors import EXIT_CHECK_FAILED, EXIT_INTERRUPTED, EXIT_OK, RefusedError
from ground.results.counted import CountRun
from ground.results.files import Files
from ground.results.run import new_directory
from ground.settings import Setting
from ground.system.atomic_files import read_text
from ground.system.process import interruptible
from ground.text.progress import Reporter, shown_path, terminal_width
from ground.text.ranges import within
from ioflame.commands.arguments import Commands, add_options
from ioflame.commands.outcome import kept
from ioflame.measure.count.command import PlannedCommand, count_command, planned_command
from ioflame.measure.count.conduct import count
from ioflame.measure.count.plan import CountOptions, PlannedCount, planned_count, with_baseline
from ioflame.measure.options import libraries
from ioflame.measure.study import refuse_idle
from ioflame.present.counted import failures, write_pages

_EXAMPLES = """examples:
  ioflame count                                       all operations of the installed RocksDB
  ioflame count --rocksdb 7.10.2,10.5.1               two releases, the first is the base
  ioflame count --rocksdb 10.5.1..10.10.1 --operation get --operation compaction-lz4
  ioflame count --rocksdb ./librocksdb.so --limit get=14200          for CI: exit code 1 above it
  ioflame count --rocksdb new=./librocksdb.so --baseline runs/BASE --fail-above 1%
  ioflame count --engine lmdb --operation get
  ioflame count --per rocksdb::DBImpl::Get -- ./db_bench --benchmarks=fillseq,readrandom --num=100000 --seed=1
"""


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "count",
        help="instructions of a Get, a Put, a compaction: no noise",
        description=_EXAMPLES + "\n" + (__doc__ or ""),
    )
    add = parser.add_argument
    add_options(parser, "count")
    add(
        "--jobs",
        type=within("--jobs", int, 1, 4096),
        metavar="N",
        help="programs at once (default: one a CPU)",
    )
    add("--table", choices=("markdown",), help="print a table for a pull request")
    add("--json", action="store_true", help="print every count")
    add("--per", default="", metavar="FUNCTION", help="for a command: divide its figures by the calls of this function")
    add(
        "command",
        nargs=argparse.REMAINDER,
        metavar="COMMAND",
        help="a command of your own, after --, counted as a whole",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    reporter = Reporter(quiet=arguments.quiet)
    limits = dict(_limit(one) for text in arguments.limit for one in text.split(","))
    with interruptible():
        plan = _of_command(arguments) if arguments.command else _of_operations(arguments, reporter)
        if unknown := sorted(limits.keys() - set(plan.names)):
            raise RefusedError(
                f"--limit {unknown[0]}=...: that operation is not counted here",
                mend=f"--limit {'|'.join(plan.names)}=...",
            )
        record = plan.record()
        base = with_baseline(arguments.baseline, record) if arguments.baseline else None
        study = CountRun(new_directory(arguments.out, f"count-{plan.place}"), record)

        def counted() -> None:
            if isinstance(plan, PlannedCommand):
                count_command(plan, study, reporter)
            else:
                count(plan, study, reporter, base.directory if base else None)

        if not kept(counted, study.directory, reporter):
            return EXIT_INTERRUPTED
    if base is not None:
        if others := base.other_trees(record):
            reporter.warn(
                f"the baseline's tree {others[0]} is not in {shown_path(base.directory)}: another tree alone changes "
                "counts by some 0.1 %, since the chains of the block cache are its own"
            )
        record = base.before(record)
    directory = study.directory
    shown = write_pages(directory, record, terminal_width(sys.stdout))
    failed = failures(record, arguments.fail_above, limits)
    if arguments.json:
        sys.stdout.write(read_text(directory / CountRun.file))
    elif arguments.table:
        print(shown.markdown)
    else:
        print(shown.text)
        print(f"counts:       {shown_path(directory)}")
        print(f"report:       {shown_path(directory / Files.REPORT)}   (one page; open it in a browser)")
    out = sys.stderr if arguments.json or arguments.table else sys.stdout
    print(*failed, shown.sentence, sep="\n", file=out)
    return EXIT_CHECK_FAILED if failed else EXIT_OK


def _of_operations(arguments: argparse.Namespace, reporter: Reporter) -> PlannedCount:
    options = CountOptions(
        arguments.engine,
        arguments.db_bench,
        libraries(arguments),
        [name for text in arguments.operation for name in text.split(",")],
        arguments.allocator,
        arguments.repeats,
        arguments.jobs,
        arguments.by,
    )
    return planned_count(options, reporter)


def _of_command(arguments: argparse.Namespace) -> PlannedCommand:
    """The command runs unchanged; UsageError for options that say how our own client is counted."""
    of_our_client = {
        "--operation": arguments.operation,
        "--by processor": arguments.by != "callgrind",
        str(Setting.ROCKSDB): libraries(arguments),
    }
    refuse_idle(of_our_client, "a command, which is counted unchanged")
    words = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    return planned_command(words, arguments.per, arguments.engine, arguments.repeats)


def _limit(text: str) -> tuple[str, float]:
    match = re.fullmatch(r"([\w-]+)=(\d+(?:\.\d+)?)", text)
    if match is None:
        raise RefusedError(
            f"--limit {text}: expected an operation with a number of instructions", mend="--limit get=14200"
        )
    return match[1], float(match[2])
