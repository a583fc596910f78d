"""`ioflame rules check`: what rules of your own make of a run's stacks: what matched, what did not, what has no row."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ground.errors import EXIT_CHECK_FAILED, EXIT_OK
from ground.text.progress import terminal_width
from ioflame.commands.arguments import Commands
from ioflame.present.rules_check import checked_rules
from viz.columns import folded


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser("rules", help="try category rules of your own on a run", description=__doc__)
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    check = verbs.add_parser("check", help="what matched, what did not, what is heavy and in no row")
    check.add_argument("run_directory", type=Path, metavar="RUN", help="a run directory, such as runs/latest")
    check.add_argument("--rules", type=Path, metavar="FILE", help="the rules (default: the run's own)")
    check.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Exit code 1 where a row of rules that were given matched nothing."""
    text, unmatched = checked_rules(arguments.run_directory, arguments.rules)
    print(folded(text, terminal_width(sys.stdout)))
    return EXIT_CHECK_FAILED if unmatched and arguments.rules else EXIT_OK
