"""`ioflame doctor`: what this host can measure, and what it does to the numbers."""

from __future__ import annotations

import argparse
import sys

from ground.errors import EXIT_HOST, EXIT_OK
from ground.results.checks import Verdict, render_checks, worst
from ground.system.held_process import process_number
from ground.text.progress import terminal_width
from ioflame.commands.arguments import Commands, add_options
from ioflame.measure.attach.rights import attach_checks
from ioflame.measure.host_checks import doctor_checks
from ioflame.measure.options import profile_options


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser("doctor", help="check what this host can measure", description=__doc__)
    add_options(parser, "doctor")
    parser.add_argument(
        "--attach", type=process_number, metavar="PID", help="what watching this process takes, and what is missing"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints one line a check; exit code 3 when a profile cannot work at all."""
    pid = arguments.attach
    checks = attach_checks(pid) if pid is not None else doctor_checks(profile_options(arguments))
    print(render_checks(checks, terminal_width(sys.stdout)))
    return EXIT_HOST if worst(checks) is Verdict.BLOCKED else EXIT_OK
