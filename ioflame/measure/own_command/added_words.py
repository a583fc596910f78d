"""What a client is given beside its own flags, so that its queries can be counted; and what is lost without."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from ground.results.command_run import CommandRun
from ground.text.progress import Reporter
from ioflame.measure.own_command.command_words import StartedCommand
from workloads.counted_clients import CountedClient
from workloads.engines.rocksdb.command_line import CLIENT, REPORT


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
