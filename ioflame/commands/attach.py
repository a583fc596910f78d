"""`ioflame attach`: where the CPU and the time of a running service go, without restarting it."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from collectors.counts import Count, QueryCount, command_count, prometheus_count
from collectors.target_counters import TargetProbe
from ground.errors import EXIT_INTERRUPTED, EXIT_OK, RefusedError, UsageError
from ground.results.run import Run
from ground.settings import FrontEnd, worded_for
from ground.system.groups import container_group, named_group
from ground.system.held_process import process_number
from ground.system.limits import limited_cpus
from ground.system.process import Children, interruptible
from ground.system.target import Target
from ground.text.progress import Reporter, shown_path
from ground.text.ranges import number
from ground.text.units import parse_percent, parse_time
from ioflame.commands.arguments import Commands, add_options
from ioflame.commands.outcome import exit_code, measured, print_outcome, shown_command
from ioflame.instruments import INSTRUMENTS, by_default
from ioflame.measure.attach.benchmarks import BENCHMARK_FREQUENCY, Benchmark, running_benchmark
from ioflame.measure.attach.continuous import Repetition, parse_duration, repeat
from ioflame.measure.attach.job import AttachJob, AttachOptions, new_record, resolve
from ioflame.measure.attach.redact import forget_abandoned
from ioflame.measure.attach.session import LEAST_SECONDS, WHOLE, Part, analyse_attached, attach
from ioflame.measure.host_checks import look_at_host
from ioflame.present.pack import ENDING, pack
from viz.terminal.summary import lost_lines
from workloads.registry import service_named, service_names

_EXAMPLES = """examples:
  ioflame attach 4711 --seconds 60                    a service, and the children it has and will have
  ioflame attach --cgroup tikv.service                all that a unit, or --container ID, holds
  ioflame attach --pid 4711 --count-preset selects    us per query, by the service's own statistics
  ioflame attach --pid 4711 --count 'CMD'             by a command that prints one growing number
  ioflame attach --pid 4711 --rules my.toml           categories of your own
  ioflame attach --pid 4711 --collect perf,pmp        what watches; what stops threads only where it is named
  ioflame attach 4711 --record-only                   nothing is analysed here: a file for another host

WHAT THE SERVICE NOTICES
  By default nothing stops a thread, copies a stack or sits in its code: perf samples at 49 Hz (999 of a db_bench), eBPF
  programs count at requests of the device and at context switches. What our processes took of CPU is printed beside
  what the service took; --budget 0.5% ends windows before they take more.
"""

_ABOUT_TOP = """Turns of 2 s without end, one with nothing attached and one with perf: us per query by category, QPS,
run-queue wait, IO by file and level, and what watching costs. q ends it and leaves the last two minutes as a run."""

# Samples a second and CPU of a service, which has others to serve.
_FREQUENCY = 49
_MOST_SECONDS = 86_400.0
# That we and what we start may use at once, where such a bound may be set.
_CPUS = 1.0
# What each run of several is given as we were.
_OWN_WORDS = ("cgroup", "container", "engine", "rules", "count", "count_prometheus", "count_symbol", "count_preset",
              "collect", "tail", "event", "freq", "callgraph", "device", "budget", "per", "redact")  # fmt: skip


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "attach",
        help="watch a running service: where its CPU and its time go",
        description=_EXAMPLES + "\n" + (__doc__ or ""),
    )
    add = parser.add_argument
    _add_target(parser, "attach")
    add(
        "--every",
        metavar="TIME",
        help="repeat every TIME, measured from start to start, such as 10m; SIGUSR1 keeps the last 15 minutes",
    )
    add("--for", dest="lasting", metavar="TIME", help="with --every: total length of all windows, instead of --seconds")
    add("--keep", default="7d", metavar="TIME", help="with --every: for how long runs are kept (default: 7d)")
    add("--budget", metavar="PERCENT", help="CPU that we may use, of the target's: 0.5%%")
    add(
        "--per",
        metavar="TIME",
        help="period over which --budget is accounted (default: --seconds; with --every: its TIME)",
    )
    add("--redact", action="store_true", help="hashes for all names but the engine's, the kernel's and the C library's")
    parser.set_defaults(run=run)
    live = commands.add_parser("top", help="the same on one screen that is redrawn, until q", description=_ABOUT_TOP)
    _add_target(live, "top")
    live.set_defaults(run=run_top, duration=0.0, collect=None, callgraph="fp", tail=False)
    live.set_defaults(budget=None, per=None, redact=False, record_only=False)


def _add_target(parser: argparse.ArgumentParser, command: str) -> None:
    """What is watched, and what counts its queries."""
    add = parser.add_argument
    several = "the process, with its children; several for several"
    add("pid", type=process_number, nargs="*", action="extend", default=[], metavar="PID", help=several)
    add("-p", "--pid", type=process_number, action="append", default=[], metavar="PID", help="the same")
    add("--cgroup", metavar="NAME", help="a control group: its path, or a unit of systemd: tikv.service")
    add("--container", metavar="ID", help="a container of any runtime, by its id")
    add_options(parser, command)
    add(
        "--count-of",
        nargs=2,
        action="append",
        default=[],
        metavar=("KIND", "CMD"),
        help="as --count, of one kind of operation: get 'CMD'; several kinds have a table each",
    )
    add("--count-prometheus", nargs=2, metavar=("URL", "METRIC"), help="the same by an endpoint of Prometheus' format")
    add("--count-preset", metavar="NAME", help="the same by the service's own statistics; --count-preset list")


def run(arguments: argparse.Namespace) -> int:
    """Exit code 1 where a check failed, 2 where the target or the request makes no sense, 3 where the host cannot."""
    with worded_for(FrontEnd.ATTACH):
        return _run(arguments, Reporter(quiet=arguments.quiet))


def _run(arguments: argparse.Namespace, reporter: Reporter) -> int:
    if arguments.lasting:
        arguments.duration = number("--for", arguments.lasting, parse_time, LEAST_SECONDS, _MOST_SECONDS, "2h")
    arguments.per = arguments.per or arguments.every
    with interruptible(), _bounded(arguments) as unlimited, Children() as counting:
        options = _options(arguments, counting)
        if arguments.every:
            how = Repetition(parse_duration("--every", arguments.every), parse_duration("--keep", arguments.keep))
            repeat(_once(arguments), options.pids, options.asked, options.out, how, reporter)
            return EXIT_OK
        for directory in forget_abandoned(options.out):
            reporter.warn(f"{directory}: killed before its names were hashed (--redact); what held any is removed")
        job, part, begin = _resolved(options, arguments, reporter)
        made = begin()
        probe = TargetProbe(job.target, job.device, job.group_of)
        made.record.host_load = look_at_host(job.device, reporter, probe)
        attached = partial(attach, job, made, reporter, unlimited, part)
        if not measured(attached, made, reporter, "nothing of ours is left in the target"):
            return EXIT_INTERRUPTED
        if options.record_only:
            os.nice(10)  # the target goes first
            with reporter.stage("pack what was recorded, with the symbols that it needs"):
                packed = pack(made, made.directory.with_name(f"{made.directory.name}{ENDING}"))
            for line in lost_lines(made.record):
                print(line)
            print(f"run:     {shown_path(made.directory)}\n{packed.words}")
            return exit_code(made)
    return print_outcome(made, arguments.verbose)


def run_top(arguments: argparse.Namespace) -> int:
    """Exit codes as `run` has them, and 130 where it was interrupted: by Ctrl-C, too."""
    from ioflame.measure.attach.top import OBSERVERS, PART_SECONDS, LiveScreen, Top  # with rich: 50 ms of CPU

    live = LiveScreen()
    with worded_for(FrontEnd.ATTACH), interruptible(), Children() as counting:
        with limited_cpus(_CPUS) as unlimited:
            options = replace(_options(arguments, counting), collect=OBSERVERS, seconds=PART_SECONDS)
            job, part, begin = _resolved(options, arguments, Reporter(keep=False))
            top = Top(job, part, begin, unlimited, live)
            try:
                with live.shown():
                    top.watch()
            except KeyboardInterrupt:
                found = shown_command("analyse", top.left()) if top.runs else "nothing was recorded"
                Reporter().warn(
                    f"interrupted; nothing of ours is left in the target. To fold what was recorded: {found}"
                )
                return EXIT_INTERRUPTED
            left, reporter = top.left(), Reporter()
        analyse_attached(left, reporter)
        left.point_latest()
    return print_outcome(left, arguments.verbose)


def _resolved(
    options: AttachOptions, arguments: argparse.Namespace, reporter: Reporter
) -> tuple[AttachJob, Part, Callable[[], Run]]:
    """What is watched, the part of its life, and what makes a new run of it."""
    target = Target(options.pids, options.group)
    bench = running_benchmark(target.processes) if options.group is None else None
    part = WHOLE
    if bench is not None:
        options, part = _of_benchmark(options, bench, arguments, reporter)
    job = resolve(options, target, reporter)

    def begin() -> Run:
        record = new_record(job)
        if bench is not None and not options.redact:
            bench.describe(record, options.counts)
        return Run.create(options.out, record)

    return job, part, begin


def _of_benchmark(
    options: AttachOptions, bench: Benchmark, arguments: argparse.Namespace, reporter: Reporter
) -> tuple[AttachOptions, Part]:
    """The options and the part of a db_bench, with its own frequency and count where the user gave none."""
    if arguments.freq is None:
        options = replace(options, frequency=BENCHMARK_FREQUENCY)
    if options.counts or options.symbol is not None:
        return options, WHOLE
    if bench.phase is None:
        reporter.warn(bench.without_count)
        return options, WHOLE
    bench.await_begin()
    roles = bench.roles
    options = replace(options, counts=bench.counts(roles))
    reporter.line(f"queries are counted by {bench.phase.count.what}")
    return options, bench.part(roles)


def _bounded(arguments: argparse.Namespace) -> contextlib.AbstractContextManager[str]:
    """What bounds our CPU; why it does not, or "" where it does."""
    if arguments.every:  # each run has its own
        return contextlib.nullcontext("")
    holding = [name for name in arguments.collect or () if INSTRUMENTS[name].holds]
    if holding:
        return contextlib.nullcontext(f"{holding[0]} might be held up while it holds a thread")
    return limited_cpus(_CPUS)


def _once(arguments: argparse.Namespace) -> list[str]:
    """The words of one run of several."""
    words = [word for pid in arguments.pid for word in ("--pid", str(pid))] + ["--seconds", str(arguments.duration)]
    words += [word for kind, command in arguments.count_of for word in ("--count-of", kind, command)]
    for name in _OWN_WORDS:
        value = getattr(arguments, name)
        if value is True:
            words.append(f"--{name}")
        elif isinstance(value, tuple):
            words.append(f"--{name}={','.join(value)}")
        elif isinstance(value, list):
            words += [f"--{name.replace('_', '-')}", *value]
        elif value:
            words.append(f"--{name.replace('_', '-')}={value}")
    return words


def _options(arguments: argparse.Namespace, counting: Children) -> AttachOptions:
    """The checked options. UsageError for a value that makes no sense. counting: what is asked for the count"""
    named = [name for name in ("pid", "cgroup", "container") if getattr(arguments, name)]
    if len(named) > 1:
        raise UsageError(
            f"--{' and --'.join(named)} name two targets", means="nothing was attached", mend="one of them"
        )  # fmt: skip
    if not named:
        raise UsageError(
            "no target is named", means="nothing was attached; targets are never looked for by name",
            mend="--pid <a running process; see ps>",
        )  # fmt: skip
    asked = arguments.collect
    if arguments.tail:
        asked = tuple(name for name in INSTRUMENTS if name in (*(asked or by_default()), "tail"))
    if arguments.redact and (unfit := [name for name in asked or () if INSTRUMENTS[name].names]):
        raise UsageError(
            f"--redact and --collect {','.join(unfit)}: names in their files are not hashed",
            means="nothing was attached",
            mend=f"--collect {','.join(by_default())}, or some of them",
        )
    for other, why in (("redact", "names in recordings are not hashed"), ("every", "an archive is one run's")):
        if arguments.record_only and getattr(arguments, other):
            raise RefusedError(f"--record-only and --{other}: {why}", mend="one of them")
    return AttachOptions(
        pids=list(dict.fromkeys(arguments.pid)),
        group=_group(arguments),
        asked=" ".join(f"--pid {pid}" for pid in arguments.pid) or f"--{named[0]} {getattr(arguments, named[0])}",
        seconds=arguments.duration,
        engine=arguments.engine,
        rules=arguments.rules,
        counts={kind: QueryCount(count) for kind, count in _counts(arguments, counting).items()},
        symbol=arguments.count_symbol,
        event=arguments.event,
        frequency=arguments.freq or _FREQUENCY,
        callgraph=arguments.callgraph,
        collect=asked or by_default(),
        asked_to_collect=asked is not None,
        device=arguments.device,
        budget=_budget(arguments.budget),
        period=_period(arguments),
        redact=arguments.redact,
        record_only=arguments.record_only,
        out=arguments.out.absolute(),
    )


def _group(arguments: argparse.Namespace) -> Path | None:
    if arguments.cgroup:
        return named_group(arguments.cgroup)
    return container_group(arguments.container) if arguments.container else None


def _counts(arguments: argparse.Namespace, counting: Children) -> dict[str, Count]:
    """By kind of operation; "" for all kinds together."""
    options = ("count", "count_of", "count_prometheus", "count_preset", "count_symbol")
    given = [option for option in options if getattr(arguments, option)]
    if len(given) > 1:
        names = " and ".join(f"--{option.replace('_', '-')}" for option in given)
        raise UsageError(f"{names} each count the queries", means="nothing was attached", mend="one of them")
    if arguments.count:
        return {"": command_count(arguments.count, counting)}
    if arguments.count_prometheus:
        return {"": prometheus_count(*arguments.count_prometheus)}
    if arguments.count_preset:
        return {"": _preset(arguments.count_preset, counting)}
    return {kind: command_count(command, counting) for kind, command in arguments.count_of}


def _preset(name: str, counting: Children) -> Count:
    """That of any service: `SERVICE:NAME`, or NAME where one service has it."""
    services = {name: service_named(name) for name in service_names()}
    known = {f"{name}:{preset}": one for name, service in services.items() for preset, one in service.count.items()}
    fitting = [full for full in known if name in (full, full.partition(":")[2])]
    if len(fitting) != 1:
        listed = "; ".join(f"{full}: {one.about}" for full, one in known.items())
        raise UsageError(f"--count-preset {name} is not one of: {listed}", mend="--count-preset <one of them>")
    preset = known[fitting[0]]
    return command_count(preset.command, counting, preset.lag)


def _budget(text: str | None) -> float | None:
    """A share of the target's CPU."""
    return None if text is None else number("--budget", f"{text.removesuffix('%')}%", parse_percent, 1e-6, 1, "0.5%")


def _period(arguments: argparse.Namespace) -> float:
    """Seconds of the target's CPU that the budget is a share of."""
    if arguments.per is None:
        return float(arguments.duration)
    period = parse_duration("--per", arguments.per)
    if period < arguments.duration:
        raise UsageError(
            f"--per {arguments.per} is shorter than the {arguments.duration:g} s that are watched", mend="--per 10m"
        )
    return period
