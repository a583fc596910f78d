"""Databases that are made of bytes: MANIFEST, CURRENT, small tables, and lines of LOG."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from ground.results.stored_files import StoredFile, StoredFiles
from tests.workloads.log_files import log_file, snapshot
from tests.workloads.test_table_sections import whole_table


def database(folder: Path, edits: Sequence[bytes], tables: Sequence[int] = (), manifest: int = 5) -> Path:
    """tables: those whose files are there"""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"MANIFEST-{manifest:06}").write_bytes(log_file([snapshot(), *edits]))
    (folder / "CURRENT").write_text(f"MANIFEST-{manifest:06}\n", encoding="ascii")
    for number in tables:
        (folder / f"{number:06}.sst").write_bytes(whole_table())
    return folder


def told(files: StoredFiles) -> dict[str, tuple[str, int | None, str]]:
    return {file.name: (file.kind, file.level, file.column_family) for file in files.files}


def by_name(files: StoredFiles) -> dict[str, StoredFile]:
    return {file.name: file for file in files.files}


def event(kind: str, job: int, at: float, **more: object) -> str:
    """A line of LOG. at: Unix seconds"""
    stated = {"time_micros": int(at * 1e6), "job": job, "event": kind, **more}
    return f"2026/11/26-18:25:42.7 7 EVENT_LOG_v1 {json.dumps(stated)}\n"


def made(files: StoredFiles, *numbers_: int) -> dict[int, tuple[int | None, str]]:
    """Of table files: the level, and what made them."""
    found = by_name(files)
    return {number: (found[f"{number:06}.sst"].level, found[f"{number:06}.sst"].made_by) for number in numbers_}


def creation(number: int, job: int, at: float, compression: str = "NoCompression", partitions: int = 0) -> str:
    sizes = {"data_size": 9000, "index_size": 105, "filter_size": 95, "index_partitions": partitions}
    more = {"cf_name": "new", "file_number": number, "file_size": 10_000}
    return event("table_file_creation", job, at, **more, table_properties={**sizes, "compression": compression})


def compacted(job: int, at: float, level: int, size: int = 0, **more: object) -> str:
    """The end of a compaction."""
    whole = {"num_output_files": 1, "compaction_time_micros": 1_900_000, **more}
    return event("compaction_finished", job, at, output_level=level, total_output_size=size, **whole)
