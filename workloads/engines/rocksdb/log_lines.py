"""Events and moments of a LOG; what is cut, or of another form than RocksDB's, is none: others may have written it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec

_EVENT = re.compile(r"EVENT_LOG_v1 (\{.*\})$", re.MULTILINE)
_LEVEL = re.compile(r"files_L\d{1,3}")
_Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class _Event(msgspec.Struct, kw_only=True):
    time_micros: _Count
    event: str = ""
    job: _Count = 0
    cf_name: str = ""


class _OfJob(_Event, kw_only=True):
    job: _Count


class _Started(_OfJob, kw_only=True):
    flush_reason: str = ""
    compaction_reason: str = ""
    total_data_size: _Count = 0
    input_data_size: _Count = 0


class _Finished(_OfJob, kw_only=True):
    lsm_state: Sequence[_Count] = ()
    immutable_memtables: _Count = 0


class _Compacted(_Finished, kw_only=True):
    output_level: _Count
    total_output_size: _Count
    num_output_files: _Count
    compaction_time_micros: _Count
    compaction_time_cpu_micros: _Count = 0


class _Properties(msgspec.Struct, kw_only=True):
    data_size: _Count
    index_size: _Count
    filter_size: _Count
    index_partitions: _Count
    compression: str
    num_entries: _Count = 0


class _Created(_OfJob, kw_only=True):
    cf_name: str
    file_number: _Count
    file_size: _Count
    table_properties: _Properties


class _Deleted(_Event, kw_only=True):
    file_number: _Count


class _Moved(_Event, kw_only=True):
    destination_level: _Count
    total_files_size: _Count


# What is read of each; of others, what all have.
_FORMS: dict[str, type[_Event]] = {
    "flush_started": _Started,
    "compaction_started": _Started,
    "recovery_started": _OfJob,
    "recovery_finished": _OfJob,
    "flush_finished": _Finished,
    "compaction_finished": _Compacted,
    "table_file_creation": _Created,
    "table_file_deletion": _Deleted,
    "trivial_move": _Moved,
}


def event_of(text: str) -> dict[str, Any] | None:
    """An event with all that is read of its kind; None for another, such as the last line of a killed process.

    levels: how many files of each level a job reads, by level, where `files_L0` and its like say it
    """
    try:
        found = msgspec.json.decode(text, type=dict[str, Any])
        msgspec.convert(found, _FORMS.get(str(found.get("event")), _Event))
        levels = {int(name[7:]): len(files) for name, files in found.items() if _LEVEL.fullmatch(name)}
    except (ValueError, TypeError, RecursionError):  # msgspec's are ValueErrors
        return None
    return {**found, "levels": levels}


def events(log: str) -> Iterator[dict[str, Any]]:
    """The events of a LOG, in their order."""
    for text in _EVENT.findall(log):
        if (event := event_of(text)) is not None:
            yield event


def moment_of(second: str, micros: str) -> float | None:
    """Unix seconds of `2026/11/27-04:11:06` and `772774`: the clock is the local one, as the process had it.

    None where there is no such moment.
    """
    try:
        return time.mktime(time.strptime(second, "%Y/%m/%d-%H:%M:%S")) + int(micros[:6]) / 1e6
    except (ValueError, OverflowError):
        return None
