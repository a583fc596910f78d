"""The hard recordings: deep stacks, odd names, events whose periods vary, losses, damage; and db_bench itself."""

from __future__ import annotations

import random
import re
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.folding.recordings import (
    by_text,
    checked,
    cpu_ns,
    direct,
    record,
    recording,
    run,
    share_of_differences,
    stacks,
    stats,
)
from tests.until import until

pytestmark = pytest.mark.needs("perf")

ROOTS = {b"_start", b"clone3", b"__clone", b"__GI___clone3", b"start_thread", b"main", b"__libc_start_main"}


def test_two_thousand_frames_of_a_copied_stack(build: Any, tmp_path: Path) -> None:
    # A level takes 16 bytes without frame pointers, and perf copies 65,528 at most.
    options = ["-e", "cpu-clock", "--call-graph", "dwarf,65528", "-F", "199"]
    data = record(tmp_path / "perf.data", options, build("nofp"), "500", "deep", "2000")
    ours = direct(data)
    deepest = max(ours, key=lambda stack: stack.count(b"engine::deep"))
    assert deepest.count(b"engine::deep") == 2001
    assert deepest.startswith(b"my_pool:12_x;_start;")
    assert share_of_differences(ours, by_text(data)) < 0.02
    kept = direct(data, "--max-depth", "100")
    assert sum(kept.values()) == sum(ours.values())
    assert max(stack.count(b";") for stack in kept) == 100


def test_a_command_with_a_line_feed(build: Any, tmp_path: Path) -> None:
    data = record(tmp_path / "perf.data", ["-e", "cpu-clock", "-g", "-F", "999"], build("fp"), "200", "newline")
    named = [stack for stack in direct(data) if stack.startswith(b"two_lines;")]
    assert named
    assert "cpu-clock: total equal" in checked(data)


# Of some 600 faults each second one is a sample: one that perf names otherwise is 0.3 % of the weight.
@pytest.mark.parametrize("options", [["-F", "99"], ["-c", "2"]], ids=["F99", "c2"])
def test_page_faults_whose_periods_vary_or_not(build: Any, tmp_path: Path, options: list[str]) -> None:
    data = record(tmp_path / "perf.data", ["-e", "page-faults", "-g", *options], build("fp"), "400")
    ours = direct(data)
    # Half of a small program's page faults are the loader's, whose stubs of functions chosen at run time perf calls
    # `@plt`, without a name.
    assert share_of_differences(ours, by_text(data)) < 0.02
    assert "page-faults: total equal" in checked(data)
    found = stats(data, tmp_path)
    if options[0] == "-c":
        assert (found["period_min"], found["period_max"]) == (2, 2)
    else:
        assert found["period_min"] < found["period_max"]
    assert found["weight"] == sum(ours.values())


def test_text_with_more_fields_gives_the_same_stacks(build: Any, tmp_path: Path) -> None:
    data = record(tmp_path / "perf.data", ["-e", "page-faults", "-g", "-c", "50", "-d"], build("fp"), "200")
    plain = by_text(data)
    assert by_text(data, script=("-F", "+pid,+addr,+srcline")) == plain
    assert share_of_differences(direct(data), plain) < 0.01


def test_lost_samples_are_told_and_those_that_came_are_all_counted(build: Any, tmp_path: Path) -> None:
    # Sixteen stacks fill the buffer, and perf does not empty it while the program runs for a hundred samples.
    options = ["-e", "cpu-clock", "-F", "5000", "-m", "64", "--call-graph", "dwarf,16384"]
    data = tmp_path / "perf.data"
    with recording(data, options, build("nofp"), "1500") as (perf, program):
        perf.send_signal(signal.SIGSTOP)
        begun = cpu_ns(program)
        until(lambda: cpu_ns(program) >= begun + 20_000_000, every=0.001)
        perf.send_signal(signal.SIGCONT)
    found = stats(data, tmp_path)
    assert found["samples"] > 0 and found["lost_samples"] > 0
    assert b"perf lost" in run(data).stderr
    argv = ["perf", "script", "--no-inline", "--show-lost-events", "-i", str(data)]
    text = subprocess.run(argv, check=True, capture_output=True, stdin=subprocess.DEVNULL).stdout
    by_lines = run("stats", "--format", "json", stdin=text).stdout
    # The kernel says what it lost when there is room again: what was lost at the end is in perf's own count alone.
    lines = sum(int(count) for count in re.findall(rb"PERF_RECORD_LOST lost (\d+)", text))
    assert 0 < lines <= found["lost_samples"]
    assert f'"lost_samples": {lines}'.encode() in by_lines
    assert f'"weight": {found["weight"]}'.encode() in by_lines
    assert "cpu-clock: total equal" in checked(data)


def test_split_debug_information_has_the_inlined_functions(build: Any, tmp_path: Path) -> None:
    program = build("split")
    assert list(program.parent.glob("*.dwo"))
    data = record(tmp_path / "perf.data", ["-e", "cpu-clock", "-g", "-F", "2000"], program, "300")
    marked = stacks(run("-q", "--inlines", data).stdout)
    assert any(stack.endswith(b"(anonymous namespace)::hidden;turn_[i]") for stack in marked)


def test_a_recording_cut_at_any_byte_keeps_what_came_before(build: Any, tmp_path: Path) -> None:
    data = record(tmp_path / "perf.data", ["-e", "cpu-clock", "-g", "-F", "2000"], build("fp"), "200")
    whole = data.read_bytes()
    total = sum(direct(data).values())
    seed = random.randrange(1 << 32)
    chosen = sorted(random.Random(seed).sample(range(len(whole)), 40))
    before = 0
    for end in chosen:
        cut = tmp_path / "cut.data"
        cut.write_bytes(whole[:end])
        done = run("--no-inlines", cut)
        where = f"{end} bytes of {len(whole)}, seed {seed}"
        assert done.returncode == 1, where
        assert re.search(rb"byte \d+|ends after|no samples|nothing can be read", done.stderr), (where, done.stderr)
        weight = sum(stacks(done.stdout).values())
        assert before <= weight <= total, where
        before = weight


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


@pytest.mark.alone
@pytest.mark.needs("db_bench")
def test_copied_stacks_of_readrandom_are_complete_and_those_of_perf(tmp_path: Path) -> None:
    """Where the two differ, perf's walk stops sooner: its stack is the inner part of a complete one."""
    db = [
        f"--db={tmp_path / 'db'}",
        "--num=50000",
        "--value_size=400",
        "--compression_type=none",
        "--cache_size=1048576",
    ]
    fill = ["db_bench", "--benchmarks=fillseq,flush", "--disable_wal=1", *db]
    subprocess.run(fill, check=True, capture_output=True)
    read = ["db_bench", "--benchmarks=readrandom", "--use_existing_db=1", "--threads=2", "--duration=3", *db]
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
