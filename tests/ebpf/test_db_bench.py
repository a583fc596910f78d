"""A db_bench that reads, watched: the ladder that the command prints, and its threads' time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from folding.offcpu import fold_off_cpu
from ground.errors import EXIT_CHECK_FAILED, EXIT_OK
from tests.conftest import Ioflame
from tests.ebpf.conftest import DB_FLAGS, DIRECT
from tests.ebpf.off_cpu_windows import adds_up, observe
from tests.ebpf.windows import whole_ladder
from tests.ebpf.writers import reading_db_bench

pytestmark = [pytest.mark.long, pytest.mark.needs("co-re", "db_bench")]


@pytest.fixture(scope="module")
def reader(db: Path) -> Iterator[int]:
    """The pid of one with four threads, once its cache is warm."""
    with reading_db_bench(db, "readrandom", "--threads=4", *DB_FLAGS, *DIRECT, number=3000) as pid:
        yield pid


def test_the_ladder_of_db_bench_is_of_all_its_threads(reader: int, tmp_path: Path, ioflame: Ioflame) -> None:
    out = tmp_path / "ladder.json"
    words = (f"--pid={reader}", "--sample=1", "--seconds=2", "--out", out)
    code, text, errors = ioflame.run("ebpf", "ladder", *words)
    assert code in (EXIT_OK, EXIT_CHECK_FAILED), text + errors
    ladder = whole_ladder(out)
    assert ladder.start == "query" and ladder.threads == 4
    assert "rocksdb::DBImpl::Get, then rocksdb::RandomAccessFileReader::Read" in text
    assert "most of it is" in " ".join(text.split())
    assert 0 <= ladder.incomplete <= 4
    assert ladder.device is not None and ladder.device.followed <= ladder.device.reads


def test_on_and_off_the_cpu_are_all_the_time_of_db_bench(reader: int, tmp_path: Path) -> None:
    off = observe(reader, tmp_path, sleeps=1000)
    adds_up(off)
    # The main thread waits for the others.
    assert sum(thread.voluntary > 10 for thread in off.threads) == 4
    stacks = fold_off_cpu(tmp_path / "off.data", "rocksdb")
    storage = sum(stack.ns for stack in stacks if stack.state == "io")
    # A reader without a cache waits for storage, in its read call.
    reading = sum(stack.ns for stack in stacks if (stack.state, stack.category) == ("io", "libc+k"))
    assert off.states["io"].ns == storage >= reading > storage / 2
