"""`ioflame run -- COMMAND`: your own command line, started and watched while it runs.

Its output, its input and its exit code are unchanged: ioflame writes to standard error. Each db_bench in it, and
each benchmark of a db_bench, is a run of its own. docs/running.md says more.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import shutil
import sys
from pathlib import Path

from collectors.counters import device_of
from collectors.counts import QueryCount, command_count
from collectors.perf import plan_recording
from folding.stackfold import stackfold_binary
from ground.errors import EXIT_CHECK_FAILED, EXIT_INTERRUPTED, EXIT_OK, HostError, IoflameError, RefusedError
from ground.results.command_run import CommandRun
from ground.results.host_load import HostLoad
from ground.results.run import check_writable
from ground.results.run_list import list_runs
from ground.settings import FrontEnd, worded_for
from ground.system.held_process import HeldProcess, process_number
from ground.system.process import Children, interruptible
from ground.text.progress import Reporter, shown_path, terminal_width
from ground.text.ranges import within
from ioflame import __version__
from ioflame.commands.arguments import Commands, add_options
from ioflame.commands.outcome import add_to_asked_store, check_store, exit_code, print_outcome, shown_command
from ioflame.instruments import by_default
from ioflame.measure.attach.job import AttachOptions, count_refused
from ioflame.measure.host_checks import look_at_host
from ioflame.measure.own_command.command_line import StartedCommand, added_words, checked_command
from ioflame.measure.own_command.runner import CommandOptions, CommandRunner
from ioflame.present.rules_check import own_rules
from ioflame.present.run import write_pages
from ioflame.stages.run import analyse
from viz.terminal.runs import render_runs
from viz.terminal.summary import lost_lines
from workloads.checks import existing
from workloads.registry import service_named

_EXAMPLES = """examples:
  ioflame run -- ./db_bench --benchmarks=readrandom --use_existing_db --duration=60 --db=/mnt/db
  ioflame run -- taskset -c 0-3 ./db_bench --benchmarks=fillseq,readrandom,overwrite
                                                  three benchmarks: three runs, and a table of them
  ioflame run -- bash benchmark.sh readwhilewriting   each db_bench that the script starts
  ioflame run --untouched -- ./db_bench ...           no flag is added to the command
  ioflame run --count 'CMD' -- ./my_program           any program; us per query by a number that CMD prints
  ioflame run --server $PID -- pgbench -c 4 -T 60     the server, in us per transaction that pgbench prints
  ioflame run --client mine.toml -- ./my_bench        a client that prints its queries, as your file describes it
"""
_MOST_SECONDS = 86_400.0


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "run",
        help="your own db_bench, script or program: started unchanged, watched, profiled",
        description=_EXAMPLES + "\n" + (__doc__ or ""),
        usage="ioflame run [options] -- COMMAND [ARGUMENT ...]",
    )
    add = parser.add_argument
    add_options(parser, "run")
    before = within("--warm-up", float, 0.0, _MOST_SECONDS)
    add("--warm-up", type=before, metavar="S", help="before the first window (default: a tenth of the time)")
    add("--untouched", action="store_true", help="add no flag to the command; a line names what is not measured for it")
    add(
        "--whole",
        action="store_true",
        help="the command with all that it starts as one run, from its start; of a --client, from its first line",
    )
    add("--server", type=process_number, metavar="PID", help="watch this process, to which the queries go, instead")
    add("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="the command with its arguments, after --")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Exit code of the command; 1 where it was 0 and a check failed, or nothing was measured."""
    # Standard output is the command's.
    with worded_for(FrontEnd.ATTACH), contextlib.redirect_stdout(sys.stderr):
        return _run(arguments, Reporter(quiet=arguments.quiet, moves=False))


def _run(arguments: argparse.Namespace, reporter: Reporter) -> int:
    command = checked_command(arguments.command, arguments.client)
    _check_server(arguments.server, command)
    check_store(arguments.store)
    with interruptible(), Children() as counting:
        attach = _attach_options(arguments, command)
        count = QueryCount(command_count(arguments.count, counting)) if arguments.count else None
        if count is not None:
            count.ask()
            if count.failed:
                raise count_refused(count.failed)
        check_writable(attach.out)
        stackfold_binary()
        plan = plan_recording(attach.event, attach.frequency, attach.callgraph)
        home = CommandRun.begin(attach.out, command.program, __version__, list(command.argv))
        # Of all of a command together nothing is counted by the report of one benchmark.
        whole, symbol = arguments.whole and command.client is None, command.client is not None and attach.symbol
        untouched, counted = arguments.untouched or whole, bool(count is not None or whole or symbol)
        added, report = added_words(command, home, reporter, untouched=untouched, counted=counted)
        client = command.client
        lines = client is not None and bool(client.line) and not (untouched or counted)
        if client is not None and client.server and arguments.server is None:
            reporter.line(f"{command.program} itself is watched; --server PID watches {client.server} instead")
        options = CommandOptions(
            command, added, report, arguments.duration, arguments.warm_up, arguments.whole, count, attach, lines,
            arguments.server, host_load=_look_at_host(command, attach.device, reporter),
        )  # fmt: skip
        watched = CommandRunner(options, home, plan, reporter)
        try:
            watched.start_and_watch()
        except KeyboardInterrupt:
            _tell_interrupted(watched, reporter)
            return EXIT_INTERRUPTED
        finally:
            if not watched.runs:
                shutil.rmtree(home.directory)
        failed = _analyse(watched, home, reporter) or watched.failed or not watched.runs
        code = max(_print(watched, home, arguments), EXIT_CHECK_FAILED if failed else EXIT_OK)
        for one in watched.runs:
            add_to_asked_store(arguments.store, one.directory, reporter)
    assert watched.code is not None
    own = watched.code if watched.code >= 0 else 128 - watched.code
    return own or code


def _look_at_host(command: StartedCommand, asked: Path | None, reporter: Reporter) -> HostLoad:
    """What others do before the command is started; of a device where one was asked for, or its database is known."""
    place, device = asked or (command.bench.database if command.bench is not None else None), None
    if place is not None:
        with contextlib.suppress(HostError, OSError):
            device = device_of(existing(place))
    return look_at_host(device, reporter)


def _check_server(pid: int | None, command: StartedCommand) -> None:
    """UsageError where it does not run, or there can be none."""
    if pid is None:
        return
    HeldProcess(pid)
    if command.bench is not None:
        raise RefusedError(
            f"--server {pid}: {command.program} has its database in its own process",
            mend=shlex.join(["ioflame", "run", "--", *command.argv]),
        )


def _attach_options(arguments: argparse.Namespace, command: StartedCommand) -> AttachOptions:
    """What all that is watched has in common. UsageError for a value that makes no sense."""
    if arguments.count and arguments.count_symbol:
        raise RefusedError("--count and --count-symbol each count the queries", mend="one of them")
    # They are read again for each benchmark, when it is too late to refuse them.
    if arguments.engine is not None:
        service_named(arguments.engine)
    if arguments.rules is not None:
        own_rules(arguments.rules)
    if arguments.device is not None and not arguments.device.is_dir():
        raise RefusedError(f"--device {arguments.device}: there is no such directory", mend="--device <a directory>")
    return AttachOptions(
        asked=shlex.join(command.argv),
        engine=arguments.engine,
        rules=arguments.rules,
        symbol=arguments.count_symbol or (command.called if not arguments.count else None),
        event=arguments.event,
        frequency=arguments.freq,
        callgraph=arguments.callgraph,
        collect=arguments.collect or by_default(),
        asked_to_collect=arguments.collect is not None,
        device=arguments.device,
        out=arguments.out.absolute(),
    )


def _analyse(watched: CommandRunner, home: CommandRun, reporter: Reporter) -> bool:
    """Once the command has ended, so that nothing of it is disturbed. Whether one of them failed."""
    failed = False
    for one in watched.runs:
        try:
            write_pages(one, analyse(one, reporter), reporter)
        except IoflameError as error:
            failed = True
            reporter.warn(f"{one.directory.name}: {error}")
        one.point_latest()
        one.point_latest(home.directory.parent)
    return failed


def _print(watched: CommandRunner, home: CommandRun, arguments: argparse.Namespace) -> int:
    """One run as a profile is; several as a table. The worst of their exit codes."""
    if len(watched.runs) == 1:
        return print_outcome(watched.runs[0], arguments.verbose)
    code = EXIT_OK
    if watched.runs:
        for one in watched.runs:
            print("".join(f"{one.record.workload}: {line}\n" for line in lost_lines(one.record)), end="")
        print(render_runs(list_runs(home.directory), terminal_width(sys.stdout)))
        print(f"runs:         {shown_path(home.directory)}")
        print(f"next:         {shown_command('show', watched.runs[-1])}   (the last one)")
        code = max(map(exit_code, watched.runs))
    return code


def _tell_interrupted(watched: CommandRunner, reporter: Reporter) -> None:
    reporter.warn(
        "interrupted; nothing that the command started is left" + ("" if watched.runs else ", nothing was kept")
    )
    for one in watched.runs:
        reporter.warn(f"to fold what was recorded: {shown_command('analyse', one)}")
