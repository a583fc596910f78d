"""`ioflame agent`: the services of this host, profiled now and then, into a store.

Each host wakes at a time of its own. As many profiles are taken of all hosts of a service as give the samples that were
asked for, and each is stored with its probability. docs/fleet.md has an example of the configuration.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ground.errors import EXIT_CHECK_FAILED, EXIT_OK
from ground.system.process import interruptible
from ground.text.progress import Reporter
from ioflame.commands.arguments import Commands
from ioflame.measure.agent import read_agent, run_agent


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser("agent", help="profile services now and then, into a store", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="TOML: store, services")
    parser.add_argument("--once", action="store_true", help="one period, which begins now")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Exit code 1 where a profile of the only period failed."""
    agent = read_agent(arguments.config)
    with interruptible():
        failed = run_agent(agent, Reporter(quiet=True), once=arguments.once)
    return EXIT_CHECK_FAILED if failed else EXIT_OK
