"""Profiles and tables of other programs as runs of the store: pprof, OTLP, folded stacks, perf.data, report.tsv."""

from __future__ import annotations

import json
import re
import shlex
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from folding.foreign import ForeignProfile, read_otlp, read_pprof
from folding.stackfold import run_stackfold
from ground.errors import MeasurementError, UsageError
from ground.results.benchmark_report import read_benchmark_reports
from ground.results.profile import read_profile
from ground.results.store.database import RunTables
from ground.results.store.ids import FrameTable
from ground.system.atomic_files import file_sha256, read_text, read_whole
from ground.system.scratch import scratch_directory
from ioflame.store.runs import run_name, sample_rows

FORMATS = ("pprof", "otlp", "folded", "perf-data", "tsv")
# What a file does not say of itself and `--set` may.
SETTINGS = ("workload", "version", "host", "test", "threads", "cpuPer", "qps", "event", "probability")
# Least, most, and both in words. A weight counts 1/probability times.
_RANGES = {
    "threads": (1, 2**31 - 1, "a whole number from 1"),
    "cpuPer": (0.0, 1e18, "us per query, 0 or more"),
    "qps": (0.0, 1e18, "queries a second, 0 or more"),
    "probability": (sys.float_info.min, 1.0, "a probability above 0, at most 1"),
}
_BY_NAME = {".otlp": "otlp", ".tsv": "tsv", ".data": "perf-data", ".folded": "folded", ".txt": "folded", ".pb": "pprof",
            ".gz": "pprof", ".pprof": "pprof"}  # fmt: skip
# What stackfold unpacks, as `perf.data.gz`; pprof is packed by itself.
_PACKED = (".gz", ".xz", ".zst")
_PACKED_KINDS = ("folded", "perf-data")
# benchmark.sh's names of what ioflame has a name for; its others keep theirs behind "report.".
_FIGURES = {"ops_sec": "qps", "usec_op": "rx.lat"}
_VERSION = re.compile(r"\d+(\.\d+)+")


@dataclass(frozen=True)
class _Origin:
    """A file that is imported, and what was said of it."""

    path: Path
    digest: str
    created: str
    settings: Mapping[str, str]

    def tables(self, part: str = "", **own: object) -> RunTables:
        """A run of its own for a part of the file, with its rows in `runs` and `artifacts`."""
        created = str(own.get("created", self.created))
        said = self.settings
        # The same bytes of two hosts are two profiles.
        of_host = [said["host"]] if "host" in said else []
        tables = RunTables(run_name(created, self.path.stem, self.digest, part, *of_host), created[:10])
        label, workload = said.get("version", "unknown"), said.get("workload", self.path.stem)
        row: dict[str, object] = {
            "campaign": "", "arm": "", "base": "", "twin": False, "created": created, "engine": "",
            "workload": workload, "test": said.get("test", workload),
            "threads": int(said.get("threads", "1")), "factor": "", "label": label, "host": said.get("host", "unknown"),
            "artifact": f"version {label}", "tree": "", "probability": float(said.get("probability", "1")),
            "source": "import",
            "raw_path": str(self.path.resolve()), "raw_sha256": self.digest, "settings": "{}",
        }  # fmt: skip
        row |= own
        tables.add("runs", **row)
        tables.add("artifacts", artifact=row["artifact"], version=row["label"], facts="{}")
        for name in ("cpuPer", "qps"):
            if name in said:
                tables.add("figures", metric=name, value=float(said[name]))
        return tables


@dataclass(frozen=True)
class Imported:
    """The runs that a file holds; left_out: in words, what of it could not be read."""

    runs: list[RunTables]
    left_out: list[str]


def import_file(path: Path, settings: Mapping[str, str], form: str = "") -> Imported:
    """One run for a profile, one a row for a table.

    form: one of FORMATS, "" to go by the file's name. UsageError where that does not say, or for a table of something
    else; MeasurementError where the file is broken.
    """
    kind = form or _kind(path)
    digest = file_sha256(path)
    created = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(path.stat().st_mtime))
    origin = _Origin(path, digest, created, settings)
    if kind == "tsv":
        return _rows_of_table(origin)
    if kind == "pprof":
        return Imported([_foreign(origin, read_pprof(read_whole(path)), "")], [])
    if kind == "otlp":
        found = read_otlp(read_whole(path))
        return Imported([_foreign(origin, one, str(number)) for number, one in enumerate(found)], [])
    event = settings.get("event", "")
    tables, frames = origin.tables(event), FrameTable()
    with scratch_directory() as place:
        argv = ["--kernel", "--slice-ms", "1000", "--input-format", kind, str(path)]
        folded = run_stackfold([*argv, *(["--event", event] if event else [])], place / "profile.json")
        if "several events" in folded.errors:
            raise UsageError(
                f"{path}: {folded.errors}", means="nothing of it was added", mend="--set event=NAME, for each"
            )
        folded.require("stackfold")
        sample_rows(read_profile(place / "profile.json"), tables, frames)
    return Imported([_with(tables, frames)], [])


def _kind(path: Path) -> str:
    with path.open("rb") as file:
        begin = file.read(8)
    if begin == b"PERFILE2":
        return "perf-data"
    kind = _BY_NAME.get(path.with_suffix("").suffix if path.suffix in _PACKED else path.suffix)
    if begin[:2] == b"\x1f\x8b" and kind not in _PACKED_KINDS:
        return "pprof"
    if kind is None:
        raise UsageError(
            f"{path}: its name does not say what it is",
            means="nothing of it was added",
            mend=f"--format {'|'.join(FORMATS)}",
        )
    return kind


def _with(tables: RunTables, frames: FrameTable) -> RunTables:
    """MeasurementError where a number is larger than the store's types hold, and larger than any that is counted."""
    tables.rows["frames"], tables.rows["stacks"] = list(frames.frames.values()), list(frames.stacks.values())
    sums: Counter[str] = Counter()
    for row in tables.rows.get("samples", []):
        sums[row["event"]] += abs(row["weight"])
    for event, total in sums.items():
        _check_size(f"the sum of {event}", total, 2**63)
    for row in tables.rows["frames"]:
        _check_size(f"a line of {row['name']}", row["line"] or 0, 2**31)
    return tables


def _check_size(what: str, number: int, limit: int) -> None:
    if abs(number) >= limit:
        raise MeasurementError(
            f"{what} is {number:,}, not below {limit:,}", means="the profile is broken; nothing of it was added"
        )


def _foreign(origin: _Origin, profile: ForeignProfile, part: str) -> RunTables:
    told = (
        {"created": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(profile.time_ns // 10**9))}
        if profile.time_ns
        else {}
    )
    _check_size("the time of its begin in ns", profile.time_ns, 2**63)
    types = json.dumps({"types": profile.types, "time_ns": profile.time_ns, "duration_ns": profile.duration_ns})
    tables, frames = origin.tables(part, settings=types, **told), FrameTable()
    for sample in profile.samples:
        places = [frames.frame(one.name, one.object, one.file, one.line) for one in sample.frames]
        high, low = frames.stack(places)
        labels = json.dumps(sample.labels) if sample.labels else ""
        pool = next((str(value) for key, value, *_ in sample.labels if key in ("comm", "thread.name")), "")
        for (event, unit), value in zip(profile.columns, sample.values, strict=True):
            tables.add(
                "samples", event=event, unit=unit, pool=pool, state="", labels=labels, stack_hi=high, stack_lo=low,
                weight=value,
            )  # fmt: skip
    return _with(tables, frames)


# ---- tables ----------------------------------------------------------------------------------------------------------
def _rows_of_table(origin: _Origin) -> Imported:
    """A run a row of benchmark.sh's reports; or a run a cell of a table with a column a version."""
    head, *rows = [line.split("\t") for line in read_text(origin.path).splitlines() if line and line[0] != "#"] or [[]]
    versions = [name for name in head if _VERSION.fullmatch(name)]
    if "test" in head and versions:
        made = [
            _of_row(origin, row, version, f"{number} {version}", {"qps.relative": row.get(version, "")})
            for number, row in enumerate(dict(zip(head, cells, strict=False)) for cells in rows)
            for version in versions
        ]
        return Imported([_together(origin, [tables for tables in made if tables.rows.get("figures")])], [])
    reported, left_out = read_benchmark_reports([origin.path])
    made = [
        _of_row(origin, row.cells, row.cells["version"], str(number), row.cells) for number, row in enumerate(reported)
    ]
    return Imported([_together(origin, made)], left_out)


def _together(origin: _Origin, rows: Sequence[RunTables]) -> RunTables:
    """Runs of one table go into the same files, in which each has a name of its own."""
    whole = RunTables(run_name(origin.created, origin.path.stem, origin.digest), origin.created[:10])
    for number, one in enumerate(rows):
        for table, found in one.rows.items():
            whole.rows.setdefault(table, []).extend({**row, "run": f"{whole.run}.{number:04}"} for row in found)
    return whole


def _of_row(origin: _Origin, row: Mapping[str, str], version: str, part: str, figures: Mapping[str, str]) -> RunTables:
    test, dot, threads = row["test"].rpartition(".t")
    if not dot or not threads.isdigit():
        test, threads = row["test"], origin.settings.get("threads", "1")
    words = [row.get("workload", ""), test, row.get("build", ""), f"t{threads}" if dot else ""]
    tables = origin.tables(
        part, workload=test, test=" ".join(filter(None, words)), threads=int(threads), label=version,
        artifact=f"version {version} {row.get('build', '')}".strip(), source="report.tsv",
        settings=json.dumps(dict(row), sort_keys=True),
    )  # fmt: skip
    for name, text in figures.items():
        value = _number(text)
        if value is not None:
            metric = _FIGURES.get(name, name if "." in name else f"report.{name}")
            tables.add("figures", metric=metric, value=value)
    return tables


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def settings_of(given: Sequence[str]) -> dict[str, str]:
    """`KEY=VALUE`, each of SETTINGS. UsageError for another."""
    found = dict(one.partition("=")[::2] for one in given)
    unknown = [key for key in found if key not in SETTINGS]
    if unknown:
        raise UsageError(f"--set {unknown[0]} is not known", mend=f"--set {'|'.join(SETTINGS)}=VALUE")
    for key, (least, most, words) in _RANGES.items():
        text = found.get(key, "1")
        value = _number(text)
        # NaN is in no range.
        if value is None or not least <= value <= most or (key == "threads" and not text.isdecimal()):
            mend = shlex.join(["--set", f"{key}=1"])
            raise UsageError(f"--set {key}={text}: expected {words}", means="nothing was added", mend=mend)
    return found
