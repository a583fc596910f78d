from __future__ import annotations

from pathlib import Path

import pytest

from collectors.perf_so_far import copy_so_far
from ground.errors import MeasurementError


@pytest.mark.parametrize("begun", [b"", b"PERFILE2", b"x" * 200])
def test_what_is_no_recording_yet_is_refused(tmp_path: Path, begun: bytes) -> None:
    (tmp_path / "perf.data").write_bytes(begun)
    with pytest.raises(MeasurementError, match=f"is no recording of perf yet: it has {len(begun)} bytes"):
        copy_so_far(tmp_path / "perf.data", tmp_path / "copy")
