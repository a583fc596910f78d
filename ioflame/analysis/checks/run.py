"""All checks of a run over its own record; of them here whether the workload did what it is for: keys found, reads that
reach the device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ground.results.checks import Check, Verdict
from ground.results.record import RunRecord
from ground.settings import Setting
from ioflame.analysis.checks.profile import profile_checks
from ioflame.analysis.checks.target import target_checks
from ioflame.analysis.checks.windows import window_checks

_DATA_TO_CACHE = 20
# Below it more than half of the reads may be answered by the page cache.
_DATA_TO_LIMIT = 2


def workload_checks(record: RunRecord) -> Iterator[Check]:
    result = record.engine_result
    if "found" in result:
        found, reads = int(result["found"]), int(result["reads"])
        if found == reads:
            yield Check("keys found", Verdict.OK, f"{found:,} of {reads:,}")
        elif record.expected.missing_keys:
            means = "this workload also asks for keys that are not there, which cost less: CPU and reads are of both"
            yield Check("keys found", Verdict.NOTE, f"{found:,} of {reads:,} ({found / reads:.1%})", means)
        else:
            yield Check(
                "keys found",
                Verdict.FAILED,
                f"{found:,} of {reads:,}",
                "queries for keys that are not there end at the bloom filter: another workload",
            )
    elif record.expected.write_rate or record.expected.tree == "unchanged":
        yield Check("keys found", Verdict.WARN, "unknown", "the engine's closing line is missing from its log")
    database = record.database
    limit, data, cache = database.memory_limit or 0, database.data_bytes or 0, database.cache_size or 0
    if database.direct is False and limit:
        few = data < _DATA_TO_LIMIT * limit
        yield Check(
            "page cache",
            Verdict.WARN if few else Verdict.OK,
            f"buffered reads within {limit / 2**20:.0f} MiB, data are {data / limit:.1f} x as large",
            "most of the data fit into it: reads that it answers never reach the device" if few else "",
            f"a smaller {Setting.MEMORY_LIMIT} or more {Setting.NUM_KEYS}" if few else "",
        )
    elif database.direct is False:
        yield Check(
            "page cache",
            Verdict.NOTE,
            f"buffered reads; it was {database.page_cache or 'not dropped, and may be warm'}",
            "reads that it answers never reach the device: readsPerQuery says how many did",
            f"a {Setting.CONFIG} that reads with O_DIRECT, {Setting.MEMORY_LIMIT}, or "
            "--allow-host-changes to drop it first",
        )
    if data and cache:
        ratio = data / cache
        cached = bool(database.cached)
        io_bound = ratio >= _DATA_TO_CACHE or cached
        yield Check(
            "IO-bound" if not cached else "cached",
            Verdict.OK if io_bound else Verdict.WARN,
            f"data are {ratio:.1f} x the block cache",
            "" if io_bound else "many queries are answered from memory",
            "" if io_bound else f"a smaller {Setting.CACHE_SIZE} or more {Setting.NUM_KEYS}",
        )


def run_checks(record: RunRecord, background: Mapping[str, int], unread: str = "") -> Iterator[Check]:
    """background: weight in the profile of the engine's threads that serve no query, by what they do

    unread: why perf report could not read the recording
    """
    if record.host_load is not None:
        before = record.host_load.check()
        # Where it lasted the windows warn of it.
        yield replace(before, verdict=Verdict.OK if before.verdict is Verdict.OK else Verdict.NOTE)
    if record.profile is not None:
        yield from profile_checks(record.profile, record.host.get("nominal_ghz", ""), background, unread)
    for lost in record.unobserved:
        # What was asked for by name and did not watch fails the run; a scale's default only says so.
        verdict = Verdict.FAILED if lost.asked else Verdict.WARN
        yield Check(lost.kind, verdict, f"did not watch: {lost.why}", "its figures are missing", lost.mend)
    if record.target is None:
        yield from workload_checks(record)
    else:
        yield from target_checks(record.target, record.windows, record.profile.coverage if record.profile else None)
    yield from window_checks(record)
