"""A window's device counters without what others read: the device counts everybody's."""

from __future__ import annotations

from dataclasses import replace

from ground.results.record import Window


def of_the_process(window: Window) -> Window:
    """The window with the process's part of the device's reads, by bytes: requests of others are taken to be as large.

    What a request took (io.lat, reqsz) stays that of all requests.
    """
    counters = window.counters
    part = counters.own_part
    if part == 1:
        return window
    own = replace(
        counters,
        storage_reads=round(counters.storage_reads * part),
        storage_read_bytes=round(counters.storage_read_bytes * part),
        storage_read_ms=round(counters.storage_read_ms * part),
    )
    return replace(window, counters=own)
