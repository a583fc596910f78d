"""The parts of a sync: the same writes on an ext4 with a journal and on one without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ground.results.write_ladder import FOLLOWERS, stage_sum
from tests.ebpf.conftest import StartWriter, mounted_file
from tests.ebpf.writers import Load, follow

pytestmark = [pytest.mark.long, pytest.mark.needs("co-re", "db_bench", "loop")]

_CALL = ("sync_call", "sync_device", "sync_meta", "sync_flush", "sync_journal", "sync_wake")


@pytest.fixture
def file_system(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    with mounted_file(tmp_path, request.param) as place:
        yield place


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("file_system", ["has_journal", "^has_journal"], indirect=True)
def test_a_journal_is_waited_for_where_there_is_one(
    file_system: Path, request: pytest.FixtureRequest, start_writer: StartWriter, tmp_path: Path, threads: int
) -> None:
    journal = request.node.callspec.params["file_system"] == "has_journal"
    load = Load(threads, sync=True)
    ladder = follow(start_writer(directory=file_system), load, tmp_path / "writes.json").ladder
    sums = {name: stage_sum(ladder.roles, name) for name in (*_CALL, "sync", "exit")}
    assert ladder.finished == ladder.synced == load.count
    # Of each group one syncs: the log grows with it, so its inode is written, too.
    assert sums["sync_call"].count == sums["exit"].count
    assert sums["sync_device"].count == sums["sync_call"].count
    # A commit of the journal every five seconds may have come before it.
    if journal:
        # Its thread writes the inode, and has the device empty its cache.
        assert sums["sync_journal"].count > ladder.groups / 2 and not sums["sync_meta"].count
    else:
        assert not sums["sync_journal"].count and sums["sync_meta"].count > ladder.groups / 2
        assert sums["sync_flush"].count > ladder.groups / 2
    waited = stage_sum(ladder.of(FOLLOWERS), "sync_journal", waits=True)
    assert (waited.count > 0) == (journal and threads > 1)
