"""What /proc/PID/stat says of a process, or /proc/PID/task/TID/stat of a thread."""

from __future__ import annotations

from pathlib import Path

__all__ = ("stat_fields",)


def stat_fields(path: str | Path) -> list[bytes]:
    """Fields of stat(5) from the third on, the state. OSError once it is gone."""
    with open(path, "rb") as file:  # noqa: PTH123 - hundreds a second, each of which would make a Path
        # The name before them may hold blanks and brackets: fields count from the last closing one.
        return file.read().rpartition(b")")[2].split()
