"""Copied stacks of db_bench itself, beside those of perf script."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.folding.recordings import by_text, checked, direct, record, stats

ROOTS = {b"_start", b"clone3", b"__clone", b"__GI___clone3", b"start_thread", b"main", b"__libc_start_main"}


def complete(stack: bytes) -> bool:
    return stack.split(b";")[1:2] != [] and stack.split(b";")[1] in ROOTS


def stops_sooner(shorter: Counter[bytes], longer: Counter[bytes]) -> int:
    """The weight of stacks of `shorter` that are the inner part of complete ones of `longer`."""
    left = Counter(shorter)
    found = 0
    for stack, weight in longer.items():
        command, *frames = stack.split(b";")
        if not complete(stack):
            continue
        rest = weight
        for start in range(1, len(frames)):
            inner = b";".join([command, *frames[start:]])
            taken = min(left[inner], rest)
            left[inner] -= taken
            rest -= taken
            found += taken
    return found


@pytest.mark.long
@pytest.mark.needs("perf", "db_bench")
def test_copied_stacks_of_readrandom_are_complete_and_those_of_perf(tmp_path: Path) -> None:
    """Where the two differ, perf's walk stops sooner: its stack is the inner part of a complete one."""
    db = f"--db={tmp_path / 'db'} --num=50000 --value_size=400 --compression_type=none --cache_size=1048576".split()
    fill = ["db_bench", "--benchmarks=fillseq,flush", "--disable_wal=1", *db]
    subprocess.run(fill, check=True, capture_output=True)
    # So many reads, however long they take, and not so many seconds.
    read = ["db_bench", "--benchmarks=readrandom", "--use_existing_db=1", "--threads=2", "--reads=200000", *db]
    options = ["-e", "cpu-clock", "-F", "499", "-m", "2048", "--call-graph", "dwarf,16384"]
    data = record(tmp_path / "perf.data", options, *read)
    found = stats(data, tmp_path, "--no-inlines")
    assert found["samples"] > 200
    assert found["incomplete_samples"] <= 0.01 * found["samples"]

    ours = direct(data)
    # perf 6.1 puts an unknown frame where a stack was cut.
    theirs: Counter[bytes] = Counter()
    for stack, weight in by_text(data).items():
        theirs[stack.replace(b";[unknown];", b";", 1)] += weight
    total = sum(ours.values())
    only_ours, only_theirs = ours - theirs, theirs - ours
    equal = sum((ours & theirs).values()) / total
    ours_sooner = stops_sooner(only_ours, only_theirs) / total
    theirs_sooner = stops_sooner(only_theirs, only_ours) / total
    # All three are shares of weight in whole stacks, each frame at its place.
    shares = f"equal {equal:.2%}, perf's is the inner part {theirs_sooner:.2%}, ours is {ours_sooner:.2%}"
    assert ours_sooner <= 0.0005 and theirs_sooner <= 0.02, shares
    assert 1 - equal - theirs_sooner - ours_sooner <= 0.005, (shares, only_theirs.most_common(3))
    assert "cpu-clock: total equal" in checked(data)
    # Its threads do the reads, and the `pid` of a row of perf report is a thread.
    (pid,) = {int(m[1]) for stack in direct(data, "--tid") if (m := re.match(rb"db_bench-(\d+)/", stack))}
    alone = checked(data, "--only-pid", str(pid))
    assert f"cpu-clock: total equal: folded {total}, " in alone
