"""`ioflame ebpf PROGRAM --pid P --seconds N`: one eBPF program by itself, on any process."""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ioflame.checks import Check, Verdict, render_checks, worst
from ioflame.commands import ebpf_iolat, ebpf_ladder, ebpf_offcpu, ebpf_runqlat
from ioflame.commands.ebpf_program import EbpfProgram
from ioflame.errors import EXIT_CHECK_FAILED, EXIT_INTERRUPTED, EXIT_OK, UsageError
from ioflame.held_process import process_number
from ioflame.observer import Observer, attached
from ioflame.process import Children, interruptible
from ioflame.progress import Reporter, terminal_width
from ioflame.scratch import scratch_directory
from ioflame.whole import check_new, read_whole, write_whole
from viz.columns import folded

__all__ = ("add_parser",)

# One module a program: a new one is added here and nowhere else.
_PROGRAMS: Sequence[EbpfProgram] = (
    ebpf_iolat.PROGRAM,
    ebpf_ladder.PROGRAM,
    ebpf_offcpu.PROGRAM,
    ebpf_runqlat.PROGRAM,
)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "ebpf", help="one eBPF program by itself: " + ", ".join(p.name for p in _PROGRAMS), description=__doc__
    )
    programs = parser.add_subparsers(metavar="PROGRAM", required=True)
    for program in _PROGRAMS:
        one = programs.add_parser(
            program.name,
            help=program.about,
            description=program.about,
            epilog=f"OVERHEAD\n{program.overhead.strip()}\n\nEXAMPLE\n{program.example.strip()}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        one.add_argument(
            "--pid",
            type=process_number,
            action="append",
            required=True,
            metavar="PID",
            help="the process to look at; several times for several, where the program can",
        )
        one.add_argument("--children", action="store_true", help="its children too, where the program can")
        one.add_argument("--seconds", type=float, default=10.0, help="length of the window (default: 10)")
        one.add_argument("--json", action="store_true", help="print the result as JSON; checks go to standard error")
        one.add_argument("--out", type=Path, metavar="FILE", help="keep the JSON in FILE, which must not exist yet")
        program.add_arguments(one)
        one.set_defaults(run=_run, program=program)


def _run(arguments: argparse.Namespace) -> int:
    """Exit code 0, 1 when a check failed, 130 when it was interrupted; what was counted until then is printed."""
    program: EbpfProgram = arguments.program
    if not arguments.seconds > 0:
        raise UsageError(f"--seconds {arguments.seconds} is not a length of time", mend="--seconds 10")
    if arguments.out is not None:
        check_new(arguments.out, f"--out {arguments.out}", "another name")
    with scratch_directory() as folder:
        result = folder / f"{program.name}.json"
        ended: list[Check] = []
        with Children() as children, interruptible():
            observer = program.observer(arguments, children, result)
            interrupted = _observe(observer, arguments.pid, arguments.seconds, ended)
        shown = program.show(result)
        checks = [*ended, *shown.checks]
        if arguments.out is not None:
            write_whole(arguments.out, read_whole(result))
        if arguments.json:
            sys.stdout.write(result.read_text(encoding="utf-8"))
            print(render_checks(checks), file=sys.stderr)
        else:
            width = terminal_width(sys.stdout)
            print(f"{folded(shown.text.rstrip(), width)}\n\n{render_checks(checks, width)}")
    if interrupted:
        return EXIT_INTERRUPTED
    return EXIT_CHECK_FAILED if worst(checks) is Verdict.FAILED else EXIT_OK


def _observe(observer: Observer, pids: Sequence[int], seconds: float, ended: list[Check]) -> bool:
    """The window; True when a signal ended it early. It also ends early when every process has ended."""
    interrupted = False
    told = f"counting for {seconds:g} s; Ctrl-C ends it earlier"
    reporter = Reporter.on_terminal()
    with contextlib.ExitStack() as stack:
        with reporter.stage(f"attach {observer.what}"):
            stack.enter_context(attached(observer, reporter))
        observer.open()
        begun = time.monotonic()
        all_ended = False
        try:
            # A moving line on a terminal; elsewhere one line, once it counts, for who waits for that.
            if not sys.stderr.isatty():
                print(told, file=sys.stderr, flush=True)
            with reporter.stage(told, seconds):
                all_ended = _wait(pids, seconds)
        except KeyboardInterrupt:
            interrupted = True
        lasted = time.monotonic() - begun
        observer.close()
    if interrupted or all_ended:
        why = "it was interrupted" if interrupted else "every process has ended"
        verdict = Verdict.NOTE if interrupted else Verdict.WARN
        ended.append(Check("window", verdict, f"{lasted:.1f} of {seconds:g} s: {why}", "the figures are of that time"))
    return interrupted


def _wait(pids: Sequence[int], seconds: float) -> bool:
    """Until the time is over, or every process has ended (True)."""
    deadline = time.monotonic() + seconds
    with contextlib.ExitStack() as stack:
        alive = select.poll()
        left = set()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                descriptor = os.pidfd_open(pid)
                stack.callback(os.close, descriptor)
                alive.register(descriptor, select.POLLIN)
                left.add(descriptor)
        while left:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return False
            for descriptor, _ in alive.poll(remaining * 1000):
                alive.unregister(descriptor)
                left.discard(descriptor)
    return True
