"""Stacks made in code, and what is true of them, worked out without the code under test."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tests.viz.categorised import read_categorised
from viz.flame.stacks import Stack
from viz.svg.flame_graph import FlamegraphOptions

CATEGORIES = (
    ("libc+k", "the read call: libc and the kernel below it"),
    ("checksm", "verifying the checksum of a block"),
    ("bloom", "bloom filters"),
    ("LRU", "the block cache"),
    ("other", "no anchor on the stack"),
)
US_PER_QUERY = 19.246

_GET = b"db_bench;start_thread;rocksdb::Benchmark::ReadRandom;rocksdb::DBImpl::Get;rocksdb::Version::Get"
_READ = _GET + b";rocksdb::BlockFetcher::ReadBlockContents"
_PREAD = _READ + b";__libc_pread;entry_SYSCALL_64_after_hwframe_[k];vfs_read_[k]"

# category, anchor depth, samples, weight (ns), stack
LINES = (
    b"libc+k\t6\t21\t211000007\t" + _PREAD,
    b"libc+k\t6\t40\t401000003\t" + _PREAD + b";io_schedule_[k];__schedule_[k]",
    b"checksm\t6\t5\t53000017\t" + _READ + b";rocksdb::VerifyBlockChecksum;XXH3_64bits",
    # `Bloom` twice on one stack: a match that must count once
    b"bloom\t5\t17\t173000011\t" + _GET + b";FilterBloomReader::MayMatch;FastLocalBloomBits::HashMayMatch",
    b"bloom\t5\t3\t31000013\t" + _GET + b";FilterBloomReader::MayMatch",
    # too narrow to draw at any usual width, and a match of `Bloom` all the same
    *(b"other\t-1\t0\t%d\t%s;Bloom%03d" % (10007 + i, _GET, i) for i in range(300)),
    b"other\t-1\t9\t97000001\t" + _GET,
    b"other\t-1\t2\t23000003\tdb_bench;start_thread;rocksdb::Benchmark::ReadRandom",
    b"other\t-1\t7\t71000003\tdb_bench;start_thread;rocksdb::Random64::Next",
    b"other\t-1\t1\t13000001\trocksdb:low;start_thread;BloomBuilder",
)

VERSION_GET = tuple(_GET.decode().split(";"))


def stacks() -> list[Stack]:
    return read_categorised(LINES)


def options(**changes: object) -> FlamegraphOptions:
    given: dict[str, object] = {
        "title": "readrandom, 1 user: CPU by owner",
        "subtitle": "cpu-clock, 1.08 s in all; readrandom, 1 client, 8282 QPS, window 10 s",
        "categories": CATEGORIES,
        "us_per_query": US_PER_QUERY,
    }
    return FlamegraphOptions(**{**given, **changes})  # type: ignore[arg-type]


def total(some: Sequence[Stack], view: tuple[str, ...] = ()) -> int:
    """The weight of the stacks that begin with `view`."""
    return sum(stack.weight for stack in some if stack.frames[: len(view)] == view)


def matched(some: Sequence[Stack], pattern: str, view: tuple[str, ...] = (), flags: int = re.I) -> int:
    """The weight of the stacks through `view` that hold a frame matching `pattern`."""
    found = re.compile(pattern, flags)
    return sum(
        stack.weight
        for stack in some
        if stack.frames[: len(view)] == view and any(found.search(frame) for frame in stack.frames)
    )


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} %"
