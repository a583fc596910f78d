"""What a perf that still runs has recorded so far, as a recording of its own that is whole.

perf writes where its records lie into the header of its file only when it ends, and behind them what the host was.
"""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

from ground.errors import MeasurementError

_MAGIC = b"PERFILE2"
# Of the header: its length, where it has the offset and the size of the records, and the bits of what follows them.
_HEADER, _DATA, _FEATURES = 104, 40, 72
_OS_RELEASE = 4


def copy_so_far(recording: Path, out: Path) -> None:
    """Copies a recording into which perf does not write at the moment. MeasurementError where it is none.

    The copy has the kernel's release, by which its symbols are known to be those of the kernel that runs, and no build
    ids: files are read where they were mapped.
    """
    shutil.copyfile(recording, out)
    with out.open("r+b") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(0)
        header = bytearray(file.read(_HEADER))
        if len(header) < _HEADER or not header.startswith(_MAGIC):
            raise MeasurementError(f"{recording} is no recording of perf yet: it has {end:,} bytes")
        (offset,) = struct.unpack_from("<Q", header, _DATA)
        struct.pack_into("<Q", header, _DATA + 8, end - offset)
        struct.pack_into("<4Q", header, _FEATURES, 1 << _OS_RELEASE, 0, 0, 0)
        file.seek(0)
        file.write(header)
        release = os.uname().release.encode() + b"\0"
        file.seek(end)
        file.write(struct.pack("<QQI", end + 16, 4 + len(release), len(release)) + release)
