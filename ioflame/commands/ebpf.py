"""`ioflame ebpf PROGRAM --pid P --seconds N`: one eBPF program by itself, on any process."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from ground.errors import EXIT_CHECK_FAILED, EXIT_INTERRUPTED, EXIT_OK
from ground.results.checks import Verdict, render_checks, worst
from ground.results.record import FORMER_NAMES
from ground.system.atomic_files import check_new, read_whole, write_whole
from ground.system.held_process import process_number
from ground.system.process import Children, interruptible
from ground.system.scratch import scratch_directory
from ground.text.progress import Reporter, terminal_width
from ground.text.ranges import within
from ioflame.commands.arguments import Commands
from ioflame.instruments import INSTRUMENTS
from ioflame.instruments.instrument import Alone
from ioflame.measure.alone import watch
from viz.columns import folded

_PROGRAMS: Mapping[str, Alone] = {name: one.alone for name, one in INSTRUMENTS.items() if one.alone is not None}


def help_of(name: str) -> str:
    """What a program costs, and an example."""
    return resources.files("ioflame.instruments").joinpath(f"help/{name}.txt").read_text(encoding="utf-8")


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "ebpf", help="one eBPF program by itself: " + ", ".join(_PROGRAMS), description=__doc__
    )
    programs = parser.add_subparsers(metavar="PROGRAM", required=True)
    for name, program in _PROGRAMS.items():
        one = programs.add_parser(
            name,
            aliases=[former for former, current in FORMER_NAMES.items() if current == name],
            help=program.about,
            description=program.about,
            epilog=help_of(name),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        one.add_argument(
            "-p",
            "--pid",
            type=process_number,
            action="append",
            required=True,
            metavar="PID",
            help="the process to look at; several times for several, where the program can",
        )
        one.add_argument("--children", action="store_true", help="its children too, where the program can")
        lasting = within("--seconds", float, 0.01, 86_400.0)
        one.add_argument("--seconds", type=lasting, default=10.0, help="length of the window (default: 10)")
        one.add_argument("--json", action="store_true", help="print the result as JSON; checks go to standard error")
        one.add_argument("--out", type=Path, metavar="FILE", help="keep the JSON in FILE, which must not exist yet")
        program.add_arguments(one)
        one.set_defaults(run=_run, name=name)


def _run(arguments: argparse.Namespace) -> int:
    """Exit code 0, 1 when a check failed, 130 when it was interrupted; what was counted until then is printed."""
    program = _PROGRAMS[arguments.name]
    if arguments.out is not None:
        check_new(arguments.out, f"--out {arguments.out}", "another name")
    with scratch_directory() as folder:
        result = folder / f"{arguments.name}.json"
        with Children() as children, interruptible():
            observer = program.observer(arguments, children, result)
            ended = watch(observer, arguments.pid, arguments.seconds, Reporter.on_terminal())
        text, found = program.show(result)
        checks = [*ended.checks, *found]
        if arguments.out is not None:
            write_whole(arguments.out, read_whole(result))
        if arguments.json:
            sys.stdout.write(result.read_text(encoding="utf-8"))
            print(render_checks(checks), file=sys.stderr)
        else:
            width = terminal_width(sys.stdout)
            for one in checks:
                if one.verdict is Verdict.FAILED and one.name.endswith(" window"):
                    print(f"{one.value}\n")
            print(f"{folded(text.rstrip(), width)}\n\n{render_checks(checks, width)}")
    if ended.interrupted:
        return EXIT_INTERRUPTED
    return EXIT_CHECK_FAILED if worst(checks) is Verdict.FAILED else EXIT_OK
