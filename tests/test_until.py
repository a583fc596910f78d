"""`until` names a condition that never became true, and the process that ended instead."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.until import until


def test_what_did_not_come_is_named_and_the_process_that_ended_instead(tmp_path: Path) -> None:
    nothing, no_more = tmp_path / "nothing", [False]
    with pytest.raises(AssertionError, match=r"not within 0 s: exists of .*nothing"):
        until(nothing.exists, seconds=0)
    with pytest.raises(AssertionError, match=r"no longer .*no_more.*before exists"):
        until(nothing.exists, as_long_as=lambda: no_more[0])
    process = subprocess.Popen(["sh", "-c", "echo why >&2; exit 3"], stderr=subprocess.PIPE, text=True)
    with pytest.raises(AssertionError, match=r"ended with 3: \(None, 'why\\n'\), before exists"):
        until(nothing.exists, process)


def test_what_comes_ends_the_wait() -> None:
    looks = iter([0, 0, 1])
    until(lambda: next(looks))
    assert next(looks, None) is None
