"""Cells that are measured, on one database that they share: factors, memory limits, what an old engine lacks."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ground.errors import EXIT_HOST
from ground.results.cells import CellsRun
from ground.results.run import open_run
from tests.conftest import Ioflame
from tests.e2e.commands import wait_for
from tests.e2e.explained import assert_explained

pytestmark = [pytest.mark.long, pytest.mark.needs("perf", "db_bench")]

OWN = """
about = "mmap against pread, mixgraph's keys in place of readrandom's"
shows = "that cells of factors share a database"
cannot = "anything: windows of 2 s"
steps = ["mixed"]
[scale.smoke]
about = "seconds"
num_keys = 200_000
cache_size = 4194304
memory_limit = 209715200
duration = 2
warmup = 3
collect = []
[layout]
database = "shared"
bloom_bits = -1
[workload.mixed]
about = "Gets of mixgraph's all_dist"
like = "mixgraph"
missing_keys = true
flags = { keyrange_dist_a = 0.0, keyrange_dist_b = 0.0, keyrange_dist_c = 0.0, keyrange_dist_d = 0.0 }
[[factors]]
levels = [
  { name = "pread", configuration = "iobuf" },
  { name = "mmap", configuration = "iobuf", flags = { mmap_read = true } },
]
[[factors]]
levels = [{ name = "limited", limited = true }, { name = "of tomorrow", since = "99.1" }]
[[columns]]
name = "hit %"
about = "of the block cache, in the baseline windows"
part = ["mixed.window.block.cache.data.hit"]
per = ["mixed.window.block.cache.data.hit", "mixed.window.block.cache.data.miss"]
times = 100.0
[[columns]]
name = "LRU %"
about = "of a simulated one"
part = ["mixed.lru_hit_percent"]
[[columns]]
name = "found"
about = "share of the keys that are there"
part = ["mixed.found"]
per = ["mixed.reads"]
digits = 3
[[columns]]
name = "CPUs"
about = "all of their time"
part = ["mixed.window.us", "mixed.window.sy", "mixed.window.id", "mixed.window.wa", "mixed.window.st"]
per = ["mixed.window.all"]
[[holds]]
what = "half of the keys are not there"
proof = "within"
column = "found"
cells = ["pread, limited", "mmap, limited"]
low = 0.45
high = 0.55
[[holds]]
what = "all of the CPUs' time"
proof = "within"
column = "CPUs"
low = 1.0
high = 1.0
"""


@pytest.mark.needs("memory_group")
def test_cells_of_factors_share_a_database_and_what_the_engine_lacks_is_left_out(
    ioflame: Ioflame, tmp_path: Path
) -> None:
    own = tmp_path / "own.toml"
    own.write_text(OWN)
    code, out, err = ioflame.run(
        "experiment", own, "--scale=smoke", "--db-dir", tmp_path / "db", "--out", tmp_path / "out",
        "--store", tmp_path / "store",
    )  # fmt: skip
    assert code in (0, 1), err + out
    (directory,) = (tmp_path / "out").iterdir()
    record = CellsRun.open(directory).record
    assert {run.cell: run.status for run in record.runs} == {
        "pread, limited": "done", "pread, of tomorrow": "left out",
        "mmap, limited": "done", "mmap, of tomorrow": "left out",
    }  # fmt: skip
    assert "pread, of tomorrow: it needs RocksDB 99.1; this is" in out
    # The last one is of all cells but those that were left out.
    for what in ("half of the keys are not there", "all of the CPUs' time"):
        assert f"passed: {what}" in out
    # Loaded once, kept, and unchanged.
    assert err.count("load 200,000 keys") == 1
    assert list((tmp_path / "db").rglob("*.sst"))
    limited = {run.cell: open_run(directory / run.runs["mixed"]).record for run in record.runs if run.runs}
    assert all(one.database.memory_limit == 200 << 20 for one in limited.values())
    assert len(list((tmp_path / "store").glob("v1/runs/*/*.parquet"))) == len(limited)
    for one in limited.values():
        assert_explained(one, own, "--scale=smoke", "--db-dir", tmp_path / "db")
    levels = {found for one in limited.values() for found in (one.database.levels, one.database.levels_after)}
    assert len(levels) == 1
    (mmap, pread) = (limited[f"{name}, limited"] for name in ("mmap", "pread"))
    # It reads by page faults alone.
    calls, faults = (
        [sum(getattr(window.counters, name) for window in one.windows) for one in (mmap, pread)]
        for name in ("read_calls", "major_faults")
    )
    assert calls[0] * 10 < calls[1] and faults[0] > 0
    plain = [window for window in mmap.windows if window.kind == "plain"]
    assert plain and all("block.cache.data.miss" in window.engine for window in plain)


LOADS = """
about = "two loads"
shows = "what a full disk leaves"
cannot = "anything"
steps = ["load"]
holds = []
layout = { database = "own" }
scale.smoke = { about = "seconds", num_keys = 1_000_000 }
cells = [{ name = "one" }, { name = "two", cache = 0.5 }]
columns = [{ name = "ops/sec", about = "rows a second of the load", part = ["load.ops_per_second"] }]
"""


@pytest.fixture
def file_system(tmp_path: Path) -> Iterator[Path]:
    """An ext4 of 4 GiB on a loop device over a file with nothing in it."""
    image, place = tmp_path / "image", tmp_path / "mounted"
    with image.open("wb") as file:
        file.truncate(4 << 30)
    place.mkdir()
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.needs("loop")
def test_a_disk_that_fills_in_a_load_is_named_and_what_was_done_stays(
    ioflame: Ioflame, file_system: Path, tmp_path: Path
) -> None:
    """Somebody else fills it after it was looked at."""
    own, filling, out = tmp_path / "own.toml", file_system / "filling", tmp_path / "out"
    own.write_text(LOADS)
    process = ioflame.start("experiment", own, "--scale=smoke", "--db-dir", file_system / "db", "--out", out)
    wait_for(process, "load 1,000,000 keys", "load 1,000,000 keys")
    space = os.statvfs(file_system)
    with filling.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, space.f_bavail * space.f_frsize - (16 << 20))
    _, err = process.communicate(timeout=300)
    assert process.returncode == EXIT_HOST, err
    assert "NUM_KEYS" in err and f"the disk of {file_system}/db/two is full" in err
    (directory,) = out.iterdir()
    assert f"--resume {directory}" in err
    status = {run.cell: run.status for run in CellsRun.open(directory).record.runs}
    assert status == {"one": "done", "two": "failed"}
