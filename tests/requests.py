"""Requests of a device, made in code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ground.results.io_latency import Device
from ground.results.requests import NOTHING, OperationTotal, Request, Requests, SeenFile, SeenThread

OPERATIONS = ["read", "write", "flush", "discard", "other"]
FOUND = ["cached", "direct", "file_system", "no_data", "swap", "not_found"]
SUBMITTERS = ["others", "process", "kernel"]
META, READAHEAD = 1 << 12, 1 << 19
# The database's directory, and a folder in it.
DATABASE, FOLDER = 50, 51
FILES = [
    SeenFile((254, 1), 11, 1, ["000011.sst", "db", "var", ""], [11, DATABASE, 40, 2]),
    SeenFile((254, 1), 12, 1, ["000012.log", "db", "var", ""], [12, DATABASE, 40, 2]),
    SeenFile((254, 1), 13, 1, ["x", "home", ""], [13, 41, 2]),
    SeenFile((254, 1), 1, 0, [], []),
    SeenFile((254, 1), 14, 1, ["1249", "5", "db", "var", "lib"], [14, FOLDER, DATABASE, 40, 42]),
    SeenFile((254, 1), 15, 1, ["000099.dbtmp", "db", "var", ""], [15, DATABASE, 40, 2]),
]
# The process, its other thread, the kernel's, and somebody else.
THREADS = [
    SeenThread(42, 42, "db"), SeenThread(43, 42, "low"), SeenThread(0, 0, "kworker/u4:1"), SeenThread(90, 90, "cp"),
    SeenThread(0, 0, "jbd2/vda1-8"),
]  # fmt: skip


def row(**given: Any) -> Request:
    """A read of 8 KiB of file 0 by the process, directly."""
    default = Request(1_500, 0, 1, 50, 8192, 0, 0, 0, NOTHING, 0, 1, 1, 0)
    return default._replace(**given)


def told(rows: Sequence[Request], **given: Any) -> Requests:
    """The `requests.json` of these rows, in a window from 1,000 to 2,000 ns."""
    totals = {
        name: OperationTotal(
            sum(one.operation == number for one in rows), sum(one.bytes for one in rows if one.operation == number)
        )
        for number, name in enumerate(OPERATIONS)
    }
    flags = {"meta": META, "rahead": READAHEAD}
    whole = Requests(
        "co-re", "", Device(254, 0, "vda"), [42], False, 1000, 2000, 0, OPERATIONS, FOUND, SUBMITTERS, flags, totals,
        len(rows), FILES, THREADS, {},
    )  # fmt: skip
    return replace(whole, **given)
