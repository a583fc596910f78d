"""The facts that an engine's folder states of it: `About`, the top of its `engine.toml`."""

from __future__ import annotations

import msgspec


class About(msgspec.Struct, frozen=True, kw_only=True):
    """The facts at the top of an `engine.toml`.

    title:       its name in prose; client: its benchmark, which is asked for with DB_BENCH; package: Debian's, of that
    other_clients: that CLIENT may name beside it
    versions:    those whose output is understood; release_build: what a build to be measured is made with
    data_files:  the files with its data, as a glob
    file_kinds:  what a file of a database is by its name below the directory: kinds by patterns, the first that fits
    direct_flag: true where reads bypass the page cache; "" where there is no such flag
    block_cache: it has one of its own, beside the page cache
    counts_stalls: its statistics state for how long writers were held back
    block_reads: the workload that reads a block at a time
    filters:     the category of its filters' work
    cache_types: kinds of block cache, as the client calls them; the first is the default
    advice:      the values of {direct} and other placeholders in the advice of findings
    background_threads: what threads do that serve no query, by the beginning of their names
    """

    title: str
    client: str
    package: str
    versions: str
    release_build: str
    data_files: str
    direct_flag: str
    block_reads: str
    filters: str
    cache_types: tuple[str, ...]
    background_threads: dict[str, str]
    other_clients: tuple[str, ...] = ()
    block_cache: bool = True
    counts_stalls: bool = True
    advice: dict[str, str] = {}
    file_kinds: dict[str, str] = {}
