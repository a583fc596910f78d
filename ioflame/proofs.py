"""Is the tree what the experiment says it is, and did it stay so while it was read?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ioflame.checks import Check, Verdict
from ioflame.run import Category, Window

__all__ = ("bloom_proof", "tree_proofs")

# The filters' share of weight that is left when the last level's are not used: 0.02 % in the source document.
_NO_BLOOM_PERCENT = 0.5
_COMPACTED = re.compile(r"^Cumulative compaction: ([\d.]+) GB write", re.MULTILINE)
# Writes of a reading process: its log and its report; a flush or a compaction writes megabytes.
_LOG_BYTES = 4 << 20


def tree_proofs(before: str, after: str, levels: str, log: str, windows: list[Window]) -> Iterator[Check]:
    """before, after: the non-empty levels as text (`L6 8 files 333 MiB, ...`); levels: `any`, `several` or `one`."""
    count = len([part for part in before.split(", ") if part])
    fits = {"any": True, "several": count > 1, "one": count == 1}[levels]
    yield Check(
        "levels",
        Verdict.OK if fits else Verdict.FAILED,
        before or "none",
        "" if fits else f"the step is defined for {levels} non-empty level{'s' * (levels == 'several')}, not {count}",
    )
    same = before == after
    yield Check(
        "levels after",
        Verdict.OK if same else Verdict.FAILED,
        "unchanged" if same else after or "none",
        "" if same else "the tree changed while it was read",
    )
    compacted = [float(value) for value in _COMPACTED.findall(log)]
    if not compacted:
        yield Check("compaction in the log", Verdict.WARN, "not stated", "this db_bench prints other statistics")
    else:
        quiet = compacted[-1] == 0.0
        yield Check(
            "compaction in the log",
            Verdict.OK if quiet else Verdict.FAILED,
            f"{compacted[-1]:.2f} GB written",
            "" if quiet else "a flush or compaction ran in the reading process",
        )
    written = sum(window.counters.process_write_bytes for window in windows)
    quiet = written <= _LOG_BYTES
    yield Check(
        "writes while reading",
        Verdict.OK if quiet else Verdict.FAILED,
        f"{written / 2**20:.1f} MiB",
        "" if quiet else "a flush or compaction ran in the windows",
    )


def bloom_proof(rows: list[Category]) -> Check:
    """For a workload that is to read without filters: their share of the weight is next to nothing."""
    share = next((row.share for row in rows if row.name == "bloom"), 0.0)
    unused = share < _NO_BLOOM_PERCENT
    return Check(
        "filters unused",
        Verdict.OK if unused else Verdict.FAILED,
        f"bloom {share:.2f} % of weight",
        "" if unused else "the filters of the last level were read: the tree has more levels, or the option is ignored",
    )
