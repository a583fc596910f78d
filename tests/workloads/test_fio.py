from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import MeasurementError, UsageError
from workloads.fio import fio_argv, parse_fio, request_split


@pytest.mark.long
@pytest.mark.needs("fio")
@pytest.mark.parametrize("users", [1, 2])
def test_a_real_fio_reads_the_databases_files_and_its_figures_add_up(tmp_path: Path, users: int) -> None:
    for name in ("000001.sst", "a:b.sst"):
        (tmp_path / name).write_bytes(os.urandom(4 << 20))
    before = sorted(p.name for p in tmp_path.iterdir())
    argv = fio_argv(tmp_path, "*.sst", users, 1, {8192: 100}, seed=7)
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    result = parse_fio(done.stdout, users)
    seconds = json.loads(done.stdout)["jobs"][0]["read"]["runtime"] / 1e3
    assert result.reads == pytest.approx(result.iops * seconds, rel=0.05)
    # Each user waits for one read after the other: their latencies are no longer than the time, nor is their CPU.
    assert 0 < result.lat * result.iops / 1e6 <= 1.05 * users
    assert 0 < result.cpu_per * result.iops / 1e6 <= 1.05 * users
    assert sorted(p.name for p in tmp_path.iterdir()) == before


@pytest.mark.long
@pytest.mark.needs("fio")
@pytest.mark.parametrize(("found", "read"), [(500, 500), (1000, 900)])
def test_fio_reads_a_database_of_many_files(tmp_path: Path, found: int, read: int) -> None:
    database = tmp_path / "of:many"
    database.mkdir()
    for number in range(found):
        with (database / f"{number:06}.sst").open("wb") as file:
            file.truncate(8192)
    argv = fio_argv(database, "*.sst", 1, 1, {8192: 100}, seed=7)
    done = subprocess.run([*argv, "--debug=file"], capture_output=True, text=True, check=True)
    opened = {line.rpartition(" ")[2] for line in done.stdout.splitlines() if "fd open" in line}
    assert len(opened) == read
    numbers = sorted(int(Path(path).stem) for path in opened)
    assert numbers[0] == 0 and numbers[-1] >= found - 2


@given(st.floats(4096, 1 << 20), st.sampled_from([512, 4096]))
def test_a_split_has_the_mean_that_was_measured(mean: float, unit: int) -> None:
    split = request_split(mean, unit)
    assert sum(split.values()) == 100
    assert all(size % unit == 0 and percent > 0 for size, percent in split.items())
    assert sum(size * percent for size, percent in split.items()) / 100 == pytest.approx(mean, abs=0.0051 * unit)


def test_aligned_blocks_are_read_as_they_are() -> None:
    assert request_split(8192.0, 512) == {8192: 100}
    assert request_split(8.9 * 1024, 512) == {8704: 20, 9216: 80}


@pytest.mark.long
@pytest.mark.needs("fio")
def test_fio_reads_the_mixture_that_it_is_told(tmp_path: Path) -> None:
    """Blocks that are not aligned are read as 8.5 or 9 KiB, as the database reads them, at any sector."""
    (tmp_path / "000001.sst").write_bytes(os.urandom(8 << 20))
    argv = fio_argv(tmp_path, "*.sst", 1, 1, {8704: 20, 9216: 80}, seed=7)
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    read = json.loads(done.stdout)["jobs"][0]["read"]
    mean, deviation = 0.2 * 8704 + 0.8 * 9216, 0.4 * 512
    assert read["io_bytes"] / read["total_ios"] == pytest.approx(mean, abs=5 * deviation / read["total_ios"] ** 0.5)


def test_percent_of_cpu_becomes_us_per_read() -> None:
    read = {"iops": 20_000.0, "total_ios": 40_000, "runtime": 2000, "lat_ns": {"mean": 99_000.0}}
    text = "fio: a warning\n" + json.dumps({"jobs": [{"usr_cpu": 2.0, "sys_cpu": 16.0, "read": read}]})
    result = parse_fio(text, users=2)
    assert (result.us_per, result.sy_per) == (2.0, 16.0)  # 2 % of 2 jobs x 2 s over 40,000 reads
    assert result.lat == 99.0


@pytest.mark.parametrize("text", ["", "fio: failed", "{}", '{"jobs": []}', '{"jobs": [{"read": {"runtime": 0}}]}'])
def test_a_result_that_counts_nothing_is_an_error(text: str) -> None:
    with pytest.raises(MeasurementError, match="fio's result cannot be read"):
        parse_fio(text, 1)


def test_no_file_is_made_for_a_database_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no \*\.sst file"):
        fio_argv(tmp_path, "*.sst", 1, 1, {8192: 100}, 1)
