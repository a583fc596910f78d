"""Which files lay at the paths of mapped ones: a table in RUN/mapped, which stackfold reads.

Files of containers, or one after the other, have the same path; a recording knows them by device and inode. The lines
are described in crates/symbolize/src/symbols/files_at_paths.rs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ground.system.atomic_files import write_whole

# Of the copies in a directory, in that directory; of a packed run, beside its symbols.
COPIED, PACKED = "copied-files", "packed-files"
_FIRST_LINE = "ioflame-files 1"


@dataclass(frozen=True)
class FileAtPath:
    """build_id: in hex; "" where it has none or where that is not known"""

    path: str
    major: int
    minor: int
    inode: int
    build_id: str = ""


def write_files_at_paths(path: Path, files: Iterable[FileAtPath]) -> None:
    """Leaves out a path that is more than one line."""
    lines = [
        f"{one.major}:{one.minor} {one.inode} {one.build_id or '-'} {one.path}" for one in files if "\n" not in one.path
    ]
    text = "".join(f"{line}\n" for line in (_FIRST_LINE, *lines))
    write_whole(path, text.encode("utf-8", "surrogateescape"))
