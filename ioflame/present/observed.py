"""What the instruments beside perf left in a run directory, read for its page. A file that cannot be read is a note."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from ground.errors import IoflameError
from ground.results.accounts import read_accounts
from ground.results.files import Files
from ground.results.run import Run
from ioflame.instruments import INSTRUMENTS
from ioflame.instruments.ladder import latency_of_client
from ioflame.stages.rules import rules_of
from viz.page.run_view import Observed

_T = TypeVar("_T")


def read_observed(run: Run, notes: list[str]) -> Observed:
    """Everything that is there; `notes` gets what is there and cannot be shown."""

    def read(name: str, reader: Callable[[Path], _T]) -> _T | None:
        path = run.path(name)
        if not path.exists():
            return None
        try:
            return reader(path)
        except IoflameError as error:
            notes.append(f"{name} is not shown: {error.what}")
            return None

    given: dict[str, object] = {
        file: read(file, reader) for one in INSTRUMENTS.values() for file, reader in one.reads.items()
    }
    given[Files.ACCOUNTS] = read(Files.ACCOUNTS, read_accounts)
    observed = Observed(
        {file: found for file, found in given.items() if found is not None},
        [panel for one in INSTRUMENTS.values() for panel in one.panels],
        rx_lat_us=latency_of_client(run),
    )
    rules = rules_of(run)
    flames = [one.flame for one in INSTRUMENTS.values() if one.flame is not None]
    graphs = [read(flame.file, partial(flame.graph, rules, observed)) for flame in flames]
    observed.graphs = [graph for graph in graphs if graph is not None]
    return observed
