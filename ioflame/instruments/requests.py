"""`requests`: what the requests of a device belong to: by file, level, what lies there in the file, and reason."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup

from ebpf.observer import CoreObserver
from ebpf.requests import RequestsOptions, attribution_checks, requests_observer
from folding.reasons import fold_reasons
from ground.errors import IoflameError, UsageError
from ground.results.accounts import Account
from ground.results.checks import Check
from ground.results.files import Files
from ground.results.request_attribution import (
    RequestAttribution,
    StoredFolder,
    StoredListing,
    read_attribution,
    read_stored_listing,
)
from ground.results.requests import NOTHING, read_requests, request_rows
from ground.results.run import Run
from ground.results.stored_files import StoredFiles
from ground.system.atomic_files import write_json
from ground.system.observer import Observer
from ground.system.process import Children
from ground.text.ranges import within
from ioflame.analysis.request_attribution import attribute_requests
from ioflame.instruments.instrument import Alone, Instrument, JsonResult, ObserverContext
from ioflame.instruments.iolat import device_number, device_of_target
from viz.page.run_view import Observed, Panel
from viz.tables.request_attribution import attribution_section, labelled
from viz.terminal.table import section_text
from workloads.registry import (
    DEFAULT_ENGINE,
    Rules,
    engine_names,
    file_kinds,
    files_reader,
    rules_named,
    service_names,
    titled,
)

# One read in so many has a stack, of other requests one in an eighth of that.
_REASONS = 32


class _WithFiles:
    """The observer of requests, with a listing of the database's files from before and after its window (an Observer).

    listing: where it goes; connection: to ask the service for the names of its files with, "" to leave that out
    """

    kind = "requests"
    takes_turns = False

    def __init__(
        self, inner: CoreObserver, database: Path | None, engine: str, listing: Path, connection: str = ""
    ) -> None:
        self.what = inner.what
        self._inner = inner
        self._database, self._engine, self._connection = database, engine, connection
        self._listing = listing
        self._before: StoredFiles | None = None
        self._failed = ""
        self._begun_ns = 0
        self._opened = False

    def attach(self) -> None:
        """Reads the files, then loads and attaches."""
        if self._database is not None:
            try:
                reader = files_reader(self._engine)
                self._begun_ns = time.monotonic_ns()  # the engine's own time of the reading is taken just then
                self._before = reader.stored_files(self._database)
            except IoflameError as error:
                self._failed = error.what
        self._inner.attach()

    def open(self) -> None:
        self._inner.open()
        self._opened = True

    def close(self) -> None:
        self._inner.close()

    def detach(self) -> None:
        self._inner.detach()
        if not self._opened:
            return
        listing = StoredListing(failed=self._failed)
        if self._database is not None and self._before is not None:
            try:
                listing = listing_of(
                    self._database, self._engine, self._before, self._begun_ns, connection=self._connection
                )
            except IoflameError as error:
                listing = StoredListing(failed=error.what)
        write_json(self._listing, listing)


def listing_of(directory: Path, engine: str, before: StoredFiles, begun_ns: int, connection: str = "") -> StoredListing:
    """The files of a database that were there since `before` was read, until now.

    engine: or service, by name; begun_ns: when `before` was read, CLOCK_MONOTONIC; connection: as `titled` takes it
    """
    reader = files_reader(engine)
    ended_ns = time.monotonic_ns()
    found = reader.stored_files_of_window(before, reader.stored_files(directory))
    found = titled(engine, found, connection)
    folders = sorted({"", *(file.name.rpartition("/")[0] for file in found.files)})
    return StoredListing(
        engine=engine,
        directory=str(directory),
        folders=[known for folder in folders for known in _folder(directory, folder)],
        files=list(found.files),
        kinds=dict(file_kinds(engine)),
        begun_ns=begun_ns,
        ended_ns=ended_ns,
        notes=list(found.notes),
        linked={file.name: inode for file in found.files for inode in _linked(directory / file.name)},
    )


def _linked(path: Path) -> Sequence[int]:
    """Its inode, where it is there and has another name as well."""
    try:
        found = path.stat()
    except OSError:
        return []
    return [found.st_ino] if found.st_nlink > 1 else []


def _folder(directory: Path, folder: str) -> Sequence[StoredFolder]:
    """None where it is gone: what was in it is found by the folder above."""
    try:
        path = directory / folder
        return [StoredFolder(folder, Path(os.path.realpath(path)).name, path.stat().st_ino)]
    except OSError:
        return []


def _observer(context: ObserverContext) -> Observer:
    run = context.run
    # Of a target the children that it will have, too; a workload of ours has none.
    request = RequestsOptions(context.pids, device_of_target(context), run.record.target is not None, _REASONS)
    inner = requests_observer(request, context.children, run.path(Files.REQUESTS))
    return _WithFiles(inner, context.database, context.engine, run.path(Files.STORED_FILES))


def _attribute_requests(directory: Path, rules: Rules) -> RequestAttribution:
    """Attributes each request in a directory to a file and a reason; writes `attribution.json`."""
    requests = read_requests(directory / Files.REQUESTS)
    listing = read_stored_listing(directory / Files.STORED_FILES)
    rows = directory / Files.REQUEST_ROWS
    # Where only children sent requests there is no stack, and nothing to fold: stacks are of the first process.
    taken = bool(requests.reasons) and any(row.stack != NOTHING for row in request_rows(rows, requests))
    reasons, labels = _reasons(directory, rules) if taken else ({}, {})
    attribution = attribute_requests(requests, request_rows(rows, requests), listing, reasons, labels)
    write_json(directory / Files.REQUEST_ATTRIBUTION, attribution)
    return attribution


def _reasons(directory: Path, rules: Rules) -> tuple[Mapping[int, str], Mapping[str, str]]:
    """The reason of each stack, by its number, and what each reason is; empty where nothing is known of the engine."""
    recording = directory / Files.REQUEST_STACKS
    if not (rules.reasons and recording.exists()):
        return {}, {}
    found, labels = fold_reasons(recording, directory / Files.REQUEST_REASONS, rules.reasons[0])
    # Threads are numbered from 1 on.
    return {number - 1: reason for number, reason in found.items()}, labels


def _accounts(run: Run) -> list[Account]:
    """None where no queries were counted in its window. What others asked for is no query's."""
    queries = sum(window.counters.queries or 0.0 for window in run.record.windows if window.kind == "requests")
    if not queries:
        return []
    attribution = _RESULT.of(run)
    own = replace(attribution, rows=[row for row in attribution.rows if row.owner != "others"])
    reads = {one.label: float(one.requests) for one in labelled(own, "read")}
    written = {one.label: one.bytes / 1024 for one in labelled(own, "write")}
    found = [Account("reads", queries, reads), Account("written", queries, written)]
    return [one for one in found if one.rows]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device",
        metavar="DEVICE|DIR",
        help="a block device (/dev/nvme0n1), or a directory on one (default: that of --database, or the current one)",
    )
    parser.add_argument(
        "--database",
        type=Path,
        metavar="DIR",
        help="its directory, for levels and parts of files (default: files by path)",
    )
    parser.add_argument(
        "--engine",
        default=DEFAULT_ENGINE,
        choices=sorted({*engine_names(), *service_names()}),
        help=f"requests files are in --database (default: {DEFAULT_ENGINE})",
    )
    parser.add_argument(
        "--titles",
        default="",
        metavar="CONNECTION",
        help="ask the service itself what its files hold, such as 'user=postgres' (PostgreSQL, by psql)",
    )
    parser.add_argument(
        "--reasons",
        type=within("--reasons", int, 0, 10**9),
        default=_REASONS,
        metavar="N",
        help=f"take the stack of one read in N, of other requests of one in N / 8, which give the reasons (default: "
        f"{_REASONS}; 0: of none)",
    )


def _alone(arguments: argparse.Namespace, children: Children, out: Path) -> Observer:
    database: Path | None = arguments.database
    if database is not None and not database.is_dir():
        raise UsageError(f"--database {database} is not a directory", mend="--database <the directory of the database>")
    device = device_number(arguments.device or str(database or "."))
    request = RequestsOptions(arguments.pid, device, arguments.children, arguments.reasons)
    inner = requests_observer(request, children, out.with_name(Files.REQUESTS))
    listing = out.with_name(Files.STORED_FILES)
    return _WithFiles(inner, database, arguments.engine, listing, arguments.titles)


def _show(path: Path) -> tuple[str, list[Check]]:
    engine = read_stored_listing(path.with_name(Files.STORED_FILES)).engine
    attribution = _attribute_requests(path.parent, rules_named(engine or DEFAULT_ENGINE))
    return section_text(attribution_section(attribution)), attribution_checks(attribution)


def _panel(seen: Observed) -> Markup:
    from viz.page.rendering import section_markup

    return section_markup(attribution_section(seen.the(Files.REQUEST_ATTRIBUTION, RequestAttribution)))


_RESULT = JsonResult(
    Files.REQUEST_ATTRIBUTION,
    read_attribution,
    lambda attribution, _: attribution_section(attribution),
    lambda attribution, _: attribution_checks(attribution),
)
INSTRUMENT = Instrument(
    "requests",
    order=7,
    observer=_observer,
    result=Files.REQUESTS,
    reads={_RESULT.file: _RESULT.read},
    analyse=lambda run, rules: attribution_checks(_attribute_requests(run.directory, rules)),
    accounts=_accounts,
    parts={"requests": _RESULT.part("what the requests of the device belong to")},
    panels=[Panel("Requests by owner", "requests", 6, [Files.REQUEST_ATTRIBUTION], _panel)],
    alone=Alone(
        "what the requests of a device belong to: file, level, block type and reason; files of other processes by path",
        _add_arguments,
        _alone,
        _show,
    ),
    names=True,
)
