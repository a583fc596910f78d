"""`ioflame history STORE`: since when, and on which hosts? Tests by versions, with the steps, as one offline page."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from ground.errors import EXIT_OK, MeasurementError
from ground.results.accounts import ACCOUNTS, Account
from ground.results.metrics import METRICS
from ground.results.store.database import Store
from ground.text.progress import Reporter, shown_path, terminal_width
from ioflame.commands.arguments import Commands, add_options
from ioflame.store.history import read_history, write_otava
from viz.page.document import write_page
from viz.page.history import render_history
from viz.tables.history import history_section, left_out
from viz.terminal.table import section_text


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser("history", help="versions of an engine: what changed, since when", description=__doc__)
    parser.add_argument("store", type=Path, metavar="STORE", help="its directory (`ioflame store --help`)")
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help="default: STORE/history.html")
    parser.add_argument(
        "--csv", type=Path, metavar="DIR", help="a CSV for each test and host, and its configuration, for Apache Otava"
    )
    parser.add_argument(
        "--label",
        action="append",
        default=[],
        metavar="PATTERN",
        help="also labels that are no versions: arms of comparisons, commits, attached programs; '*': all of them",
    )
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        type=_metric,
        metavar="NAME",
        help="a figure alone: qps, cpuPer, p99, instructions (of `ioflame count`) ...; or a row of an account, such as "
        "writepath.memtable",
    )
    add_options(parser, "history")
    parser.set_defaults(run=run)


def _metric(name: str) -> str:
    if name in METRICS or any(name.startswith(Account.row_name(account, "")) for account in ACCOUNTS):
        return name
    told = ", ".join(f"{one}.ROW" for one in ACCOUNTS)
    raise argparse.ArgumentTypeError(f"{name}: one of {', '.join(sorted(METRICS))}, or of {told}")


def run(arguments: argparse.Namespace) -> int:
    store = Store(arguments.store, memory=arguments.memory)
    with Reporter.on_terminal().stage("read the versions and look for steps"):
        history = read_history(store, arguments.label, arguments.metric)
    if not history.series:
        raise MeasurementError(
            f"{arguments.store} holds no test with two versions",
            means=left_out(history) or "there is no history of one version",
            mend=shlex.join(["ioflame", "history", str(arguments.store), "--label", "*"])
            if history.left_out
            else "ioflame store add STORE <runs of another version>",
        )
    out = arguments.out or arguments.store / "history.html"
    write_page(render_history(history, arguments.store.resolve().name), out)
    print(section_text(history_section(history), terminal_width(sys.stdout)))
    if arguments.csv:
        config = shlex.quote(str(write_otava(history, arguments.csv)))
        # Otava leaves out what is older than a year.
        print(f"csv:          otava analyze --config-file {config} --since 2000-01-01 all")
    print(f"history:      {shown_path(out.absolute())}   ({out.stat().st_size / 1e6:.2f} MB; open it in a browser)")
    return EXIT_OK
