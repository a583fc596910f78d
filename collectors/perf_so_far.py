"""What a perf that still runs has recorded so far, as a recording of its own that is whole.

perf writes where its records lie into the header of its file only when it ends, and behind them what the host was.
"""

from __future__ import annotations

import os
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
    whole = bytearray(recording.read_bytes())
    if len(whole) < _HEADER or not whole.startswith(_MAGIC):
        raise MeasurementError(f"{recording} is no recording of perf yet: it has {len(whole):,} bytes")
    offset, _ = struct.unpack_from("<QQ", whole, _DATA)
    end = len(whole)
    struct.pack_into("<QQ", whole, _DATA, offset, end - offset)
    struct.pack_into("<4Q", whole, _FEATURES, 1 << _OS_RELEASE, 0, 0, 0)
    release = os.uname().release.encode() + b"\0"
    text = struct.pack("<I", len(release)) + release
    out.write_bytes(whole + struct.pack("<QQ", end + 16, len(text)) + text)
