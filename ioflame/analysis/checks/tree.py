"""Is the tree what the step says it is, and did it stay so while it was read?

Proved by the analysis from what a run recorded, so that they hold for a run that is analysed again.
"""

from __future__ import annotations

from collections.abc import Iterator

from ground.results.categories import Category
from ground.results.checks import Check, Verdict
from ground.results.database_facts import DatabaseFacts
from ground.results.record import RunRecord
from ground.settings import Setting

# The filters' share of weight that is left when the last level's are not used: 0.02 % in the source document.
_UNUSED_PERCENT = 0.5
# Writes of a reading process: its log and its report; a flush or a compaction writes megabytes.
_LOG_BYTES = 4 << 20


def tree_proofs(record: RunRecord, compacted_gb: float | None) -> Iterator[Check]:
    """What is known of the tree around the windows; nothing where it was never looked at.

    compacted_gb: what the reading process wrote by flushes and compactions; None where its log does not state it
    """
    if record.database.levels is None:
        return
    if record.expected.tree == "changing":
        # What it has to prove instead: write_proofs.
        return
    yield from _level_proofs(record.database, record.database.levels, record.expected.levels)
    if not record.windows:
        return
    if compacted_gb is None:
        why = "this build prints other statistics"
        if not record.engine_result:
            why = "the client did not exit by itself, and it prints its statistics when it does"
        yield Check("compaction in the log", Verdict.WARN, "not stated", why)
    else:
        # The process only reads, so whatever its statistics count ran while it read.
        quiet = compacted_gb == 0.0
        yield Check(
            "compaction in the log",
            Verdict.OK if quiet else Verdict.FAILED,
            f"{compacted_gb:.2f} GB written",
            "" if quiet else "a flush or compaction ran in the reading process",
        )
    written = sum(window.counters.process_write_bytes for window in record.windows)
    quiet = written <= _LOG_BYTES
    yield Check(
        "writes while reading",
        Verdict.OK if quiet else Verdict.FAILED,
        f"{written / 2**20:.1f} MiB",
        "" if quiet else "a flush or compaction ran in the windows",
    )


def _level_proofs(database: DatabaseFacts, before: str, wanted: str) -> Iterator[Check]:
    after = database.levels_after
    count = len([part for part in before.split(", ") if part])
    fits = {"any": True, "several": count > 1, "one": count == 1}[wanted]
    yield Check(
        "LSM tree",
        Verdict.OK if fits else Verdict.FAILED,
        before or "empty",
        "" if fits else f"the step is defined for {wanted} non-empty level{'s' * (wanted == 'several')}, not {count}",
        ""
        if fits
        else f"more {Setting.NUM_KEYS}"
        if wanted == "several"
        else "make io-efficiency   (it compacts the tree first)",
    )
    entries, files = ("?" if one is None else str(one) for one in (database.memtable_entries, database.l0_files))
    empty = (entries, files) == ("0", "0")
    yield Check(
        "memtable and L0",
        Verdict.OK if empty else Verdict.WARN if wanted == "any" or entries == "?" else Verdict.FAILED,
        f"{entries} entries, {files} files",
        "" if empty else "each query may look there first",
        "" if empty or files == "0" else f"more {Setting.NUM_KEYS}: so small a database is not compacted",
    )
    if after is None:
        yield Check("levels after", Verdict.WARN, "not looked at", "whether the tree stayed as it was is not known")
    else:
        same = before == after
        yield Check(
            "levels after",
            Verdict.OK if same else Verdict.FAILED,
            "unchanged" if same else after or "empty",
            "" if same else "the tree changed while it was read",
        )


def filter_proof(rows: list[Category], filters: str) -> Check:
    """For a workload that is to read without filters: the share of their category is next to nothing."""
    share = next((row.share for row in rows if row.name == filters), 0.0)
    unused = share < _UNUSED_PERCENT
    return Check(
        "filters unused",
        Verdict.OK if unused else Verdict.FAILED,
        f"{filters} {share:.2f} % of weight",
        "" if unused else "the filters of the last level were read: the tree has more levels, or the option is ignored",
    )
