from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ground.errors import HostError
from ground.system.memory_limit import limited_memory
from tests.places import ROOT

LIMIT = 24 << 20


@pytest.mark.needs("memory_group")
def test_a_process_and_the_page_cache_that_it_fills_stay_within_the_limit(tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.write(os.urandom(1 << 20) * 96)
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with limited_memory(LIMIT) as words:
        process = subprocess.run([*words, "cat", str(large)], stdout=subprocess.DEVNULL, check=True)
        group = Path(words[-1]).parent
        most = next(group / name for name in ("memory.max_usage_in_bytes", "memory.peak") if (group / name).exists())
        assert process.returncode == 0
        # It read four times as much, and what it left in the page cache is its own: that is bounded.
        assert 8 << 20 < int(most.read_text()) <= LIMIT
    assert not group.exists()


@pytest.mark.needs("memory_group", "unshare")
def test_a_group_that_may_not_be_made_is_refused_with_what_mends_it() -> None:
    with limited_memory(LIMIT) as words:
        parent = Path(words[-1]).parent.parent
    # The same directory, read-only.
    script = f'mount --bind {parent} {parent} && mount -o remount,bind,ro {parent} && exec "$@"'
    code = "from ground.system.memory_limit import limited_memory\nwith limited_memory(1 << 24): pass"
    done = subprocess.run(
        ["unshare", "-m", "bash", "-c", script, "bash", "python3", "-c", code],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode != 0
    assert "HostError" in done.stderr and "no memory limit" in done.stderr


@pytest.mark.needs("memory_group")
def test_what_a_killed_one_left_is_removed_and_a_limit_that_is_too_small_is_refused() -> None:
    with limited_memory(LIMIT) as words:
        parent = Path(words[-1]).parent.parent
    # 2**22 is above every pid.
    abandoned = parent / "ioflame-4194305"
    abandoned.mkdir()
    with limited_memory(LIMIT):
        assert not abandoned.exists()
    with pytest.raises(HostError, match="no memory limit"), limited_memory(-5):
        pass
