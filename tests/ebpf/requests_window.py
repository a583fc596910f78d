"""A window of `requests` around what a test does, as `ioflame ebpf requests` measures it."""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ebpf.losses import UNSEEN
from ground.results.checks import Check
from ground.results.files import Files
from ground.results.request_attribution import (
    AttributedRequests,
    FileRow,
    RequestAttribution,
    StoredListing,
    read_attribution,
    read_stored_listing,
)
from ground.results.requests import Request, Requests, SeenFile, read_requests, request_rows
from ioflame.instruments.requests import INSTRUMENT
from tests.ebpf.windows import failed, observed

# A program that has opened a file to read blocks of it with O_DIRECT; a loop is to follow.
READER = """
import os, mmap, sys
f, b = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 8192)
print("reading", flush=True)
"""


@contextlib.contextmanager
def reading(path: Path | str, blocks: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process that reads the first blocks of a file again and again, for as long as it lives."""
    code = f"{READER}while True:\n  for place in range({blocks}): os.preadv(f, [b], place * 8192)\n"
    process = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None and process.stdout.readline() == b"reading\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@dataclass(frozen=True)
class Seen:
    """What a window left: whose the requests were, what was traced, the files that its engine named, and the checks."""

    attribution: RequestAttribution
    traced: Requests
    listing: StoredListing
    text: str
    checks: Sequence[Check]
    requests: Sequence[Request]

    def check(self, name: str) -> Check:
        return next(check for check in self.checks if check.name == f"requests {name}")

    def file(self, path: Path) -> FileRow:
        """The row of a file of no database."""
        (found,) = [row for row in self.attribution.files if row.name.endswith(f"/{path.parent.name}/{path.name}")]
        return found

    def of_file(self, path: Path, operation: str) -> list[Request]:
        """The requests of an operation of a file, which may be gone; the list of files has the busiest alone."""
        numbers = {place for place, file in enumerate(self.traced.files) if is_at(file, path)}
        wanted = self.traced.operations.index(operation)
        return [one for one in self.requests if one.file in numbers and one.operation == wanted]

    def rows(self, **like: object) -> list[AttributedRequests]:
        """Those whose fields are as given."""
        return [
            row for row in self.attribution.rows if all(getattr(row, name) == value for name, value in like.items())
        ]

    def count(self, **like: object) -> int:
        return sum(row.requests for row in self.rows(**like))

    @property
    def unseen(self) -> int:
        """Requests whose end no program was run for: they are in no row (seen on 6.18 in a VM)."""
        return self.traced.losses["no_end"] + self.traced.facts["unfinished"]

    def nothing_failed(self) -> None:
        """But for requests whose end no program was run for, some in a row: of a few hundred they are too many."""
        lost = {name: count for name, count in self.attribution.losses.items() if count}
        passes = {"requests losses"} if lost.keys() <= UNSEEN and sum(lost.values()) <= 20 else set()
        assert not [check for check in failed(self.checks) if check.name not in passes], self.checks


def is_at(file: SeenFile, path: Path) -> bool:
    """Whether it is this file, or was: by the inode of its folder."""
    return file.path[:1] == [path.name] and file.inodes[1:2] == [path.parent.stat().st_ino]


def seen(
    place: Path,
    load: Callable[[], object],
    *,
    device: Path | None = None,
    pid: int | None = None,
    children: bool = True,
    database: Path | None = None,
    engine: str = "rocksdb",
    reasons: int = 0,
    titles: str = "",
) -> Seen:
    """What was seen while `load` ran; place: a directory for the results.

    device: a directory on what is watched; None: `place`. pid: told apart, with its children; None: we
    """
    alone = INSTRUMENT.alone
    assert alone is not None
    out = place / Files.REQUEST_ATTRIBUTION
    asked = argparse.Namespace(
        name="requests", pid=[pid or os.getpid()], children=children, device=str(device or place), database=database,
        engine=engine, titles=titles, reasons=reasons,
    )  # fmt: skip
    observed(lambda started: alone.observer(asked, started, out), load)
    text, checks = alone.show(out)
    traced, listing = read_requests(place / Files.REQUESTS), read_stored_listing(place / Files.STORED_FILES)
    requests = list(request_rows(place / Files.REQUEST_ROWS, traced))
    return Seen(read_attribution(out), traced, listing, text, checks, requests)
