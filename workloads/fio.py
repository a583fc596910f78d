"""The fio baseline: what the device gives to reads of the same files, size and alignment, without a database.

fio's JSON (`--output-format=json`) is read, never its text: "IOPS=43.8k" has lost what matters.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ground.errors import MeasurementError, UsageError
from ground.results.cells import Baseline
from ground.system.process import tool_path

# The length of one option's value that fio takes (FIO_TOP_STR_MAX, with room for its end).
_LONGEST_OPTION = 4000
# Each job opens all its files at once, and a process may usually open 1024.
_MOST_FILES = 900


def request_split(mean_bytes: float, unit: int) -> dict[int, int]:
    """Request sizes with their percent whose mean is `mean_bytes`: the two multiples of `unit` around it, or it alone.

    A block that is not aligned to the device's blocks is read with the parts of them it touches, one more or less.
    """
    lower = max(int(mean_bytes // unit), 1) * unit
    percent = min(max(round(100 * (mean_bytes - lower) / unit), 0), 100)
    return {size: share for size, share in ((lower, 100 - percent), (lower + unit, percent)) if share}


def fio_argv(
    db_dir: Path, data_files: str, users: int, seconds: int, requests: Mapping[int, int], seed: int
) -> list[str]:
    """A random-read job over the database's own files: sync engine, one read in flight per user, O_DIRECT.

    data_files: the engine's, as a glob
    requests: sizes in bytes with their percent; offsets are multiples of what all of them are multiples of
    Of more files than a process may open, as many are read, evenly from all. Nothing is written and no file is made
    (`--readonly`, `--allow_file_create=0`). UsageError when there is no file.
    """
    found = sorted(p.name for p in db_dir.glob(data_files) if p.stat().st_size >= max(requests))
    most = min(len(found), _MOST_FILES)
    files = [found[place * len(found) // most] for place in range(most)]
    if not files:
        raise UsageError(f"{db_dir} holds no {data_files} file to read", mend="load the database first: make profile")
    return [
        tool_path("fio", "fio"),
        "--name=baseline",
        f"--directory={_escaped(str(db_dir))}",
        *_filenames(files),
        "--readonly",
        "--allow_file_create=0",
        "--rw=randread",
        "--ioengine=sync",
        "--iodepth=1",
        "--direct=1",
        *_sizes(requests),
        f"--numjobs={users}",
        f"--randseed={seed}",
        "--time_based=1",
        f"--runtime={seconds}",
        "--ramp_time=1",
        "--group_reporting=1",
        "--output-format=json",
    ]


def _escaped(name: str) -> str:
    """fio takes a colon for the end of a name."""
    return name.replace(":", r"\:")


def _filenames(names: Sequence[str]) -> list[str]:
    """The files as options, each no longer than fio takes; fio reads the files of all of them."""
    options: list[str] = []
    for name in map(_escaped, names):
        if options and len(options[-1]) + 1 + len(name) <= _LONGEST_OPTION:
            options[-1] += f":{name}"
        else:
            options.append(f"--filename={name}")
    return options


def _sizes(requests: Mapping[int, int]) -> list[str]:
    if len(requests) == 1:
        return [f"--bs={next(iter(requests))}"]
    split = ":".join(f"{size}/{percent}" for size, percent in requests.items())
    # Without bs_unaligned fio cuts every size to a multiple of the smallest one: all reads would have that.
    return [f"--bssplit={split}", f"--blockalign={math.gcd(*requests)}", "--bs_unaligned=1"]


def parse_fio(text: str, users: int) -> Baseline:
    """The result in fio's JSON, of all its jobs together; what the device's counters say of it is 0.

    MeasurementError when it is of another form or counts nothing.
    """
    try:
        # fio writes warnings before its JSON.
        data: dict[str, Any] = json.loads(text[text.index("{") :])
        jobs: Sequence[dict[str, Any]] = data["jobs"]
        read = jobs[0]["read"]
        reads = int(read["total_ios"])
        # usr_cpu and sys_cpu are percent of one CPU, summed over the group's jobs by their mean: times the jobs.
        cpu_us = read["runtime"] * 1e3 * users / 100
        return Baseline(
            iops=float(read["iops"]),
            reads=reads,
            us_per=jobs[0]["usr_cpu"] * cpu_us / reads,
            sy_per=jobs[0]["sys_cpu"] * cpu_us / reads,
            lat=read["lat_ns"]["mean"] / 1e3,
            io_lat=0.0,
            reqsz=0.0,
        )
    except (ValueError, KeyError, IndexError, TypeError, ZeroDivisionError) as error:
        raise MeasurementError(
            f"fio's result cannot be read ({error!r}): {text.strip()[:300]}", mend="fio --version; fio 3.x is needed"
        ) from None
