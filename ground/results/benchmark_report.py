"""What RocksDB's benchmark.sh left: `report.tsv`, and summaries of several of them.

A summary is blocks of rows, each below a header line, parted by empty lines; before the first block there may be the
names of the reports, whose order is that of the rows of each block. Columns are found by their names. Lines that begin
with `#` are comments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ground.errors import UsageError
from ground.system.atomic_files import read_text

_NEEDED = ("ops_sec", "test", "version")
_REPORT = "report.tsv"


@dataclass(frozen=True)
class ReportRow:
    """A test of a version. group: its workload, "" where the file has no such column; origin: the build, or where the
    row is from; version: with the origin behind it, where one version is of several origins; cells: all, by column"""

    group: str
    version: str
    origin: str
    test: str
    ops_per_second: float
    date: str = ""
    cells: Mapping[str, str] = field(default_factory=dict, compare=False)


def read_benchmark_reports(paths: Sequence[Path]) -> tuple[list[ReportRow], list[str]]:
    """The rows of all files in their order, and in words each line that is no row. UsageError for a file that has none
    of the columns, or no row at all."""
    rows: list[ReportRow] = []
    left_out: list[str] = []
    for path in paths:
        found = _rows(path, left_out)
        if not found:
            raise UsageError(
                f"{path} holds no row of benchmark.sh's report: {left_out[-1] if left_out else 'it is empty'}",
                means="nothing was written",
                mend="give a report.tsv, or a summary of several, with the columns ops_sec, test and version",
            )
        rows += found
    return _told_apart(rows), left_out


def _rows(path: Path, left_out: list[str]) -> list[ReportRow]:
    heads: list[str] = []
    listed: list[str] = []
    found: list[ReportRow] = []
    in_block = 0
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        cells = line.split("\t")
        if not line.strip() or line.startswith("#"):
            continue
        if len(cells) == 1 and line.endswith(_REPORT) and not heads:
            listed.append(Path(line).parent.name)
        elif "ops_sec" in cells or not heads:
            heads, in_block = cells, 0
            missing = [name for name in _NEEDED if name not in heads]
            if missing:
                raise UsageError(
                    f"line {number} of {path} is no header of benchmark.sh's report: it lacks {', '.join(missing)}",
                    means=f"its columns are {', '.join(heads)[:200]}; nothing was written",
                    mend="give a report.tsv, or a summary of several, with the columns ops_sec, test and version",
                )
        else:
            row = _row(dict(zip(heads, cells, strict=False)), path, listed[in_block] if in_block < len(listed) else "")
            in_block += 1
            if len(cells) != len(heads):
                left_out.append(
                    f"line {number} of {path} has {len(cells)} of {len(heads)} columns: it is torn, and left out"
                )
            elif row is None:
                left_out.append(f"line {number} of {path} has no number of operations a second, and is left out")
            else:
                found.append(row)
    return found


def _row(cells: dict[str, str], path: Path, listed: str) -> ReportRow | None:
    try:
        operations = float(cells["ops_sec"])
    except (KeyError, ValueError):
        return None
    if not 0 < operations < float("inf"):
        return None
    origin = cells.get("build") or listed or (path.parent.name if path.name == _REPORT else path.stem)
    return ReportRow(
        cells.get("workload", ""), cells.get("version", ""), origin, cells.get("test", ""), operations,
        cells.get("date", ""), cells,
    )  # fmt: skip


def _told_apart(rows: Iterable[ReportRow]) -> list[ReportRow]:
    """Each row once: summaries repeat that of the base. A version of several origins has them in its name."""
    once = list(dict.fromkeys(rows))
    origins: dict[str, set[str]] = {}
    for row in once:
        origins.setdefault(row.version, set()).add(row.origin)
    several = any(len(found) > 1 for found in origins.values())
    return [replace(row, version=f"{row.version} {row.origin}") if several else row for row in once]
