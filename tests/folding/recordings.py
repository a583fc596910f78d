"""Recordings made in a test, and the two ways to fold them: directly, and through the text of perf script."""

from __future__ import annotations

import contextlib
import json
import struct
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from folding.stackfold import stackfold_binary
from tests.programs import FRAMES
from tests.until import until

SOURCE = Path(__file__).parent / "busy.cc"
# Options of perf record, for programs with frame pointers.
CHAINS = ["-e", "cpu-clock", "-g", "-F", "2000"]

BUILDS = {
    "fp": [*FRAMES],
    "nofp": ["-O2", "-fomit-frame-pointer"],
    "debug": [*FRAMES, "-g"],
    "split": [*FRAMES, "-g", "-gsplit-dwarf"],
}


def record(data: Path, options: list[str], *command: str | Path) -> Path:
    argv = ["perf", "record", "-q", *options, "-o", str(data), "--", *map(str, command)]
    done = subprocess.run(argv, check=False, capture_output=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"{argv}: {done.returncode}, {done.stderr.decode(errors='replace')}"
    return data


@contextlib.contextmanager
def recording(data: Path, options: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """perf, which records until the end of the block."""
    argv = ["perf", "record", "-q", *options, "-o", str(data), "--", "sh", "-c", "echo; cat"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as perf:
        try:
            assert perf.stdin is not None and perf.stdout is not None
            perf.stdout.readline()
            yield perf
            perf.stdin.close()
            assert perf.wait() == 0
        finally:
            perf.kill()


def record_while_it_runs(data: Path, options: list[str], *pids: int) -> Path:
    """A recording that lasts until each of these processes has had 0.2 s on a CPU."""
    with recording(data, options) as perf:
        uses_cpu(0.2, *pids, watching=perf)
    return data


def uses_cpu(seconds: float, *pids: int, watching: subprocess.Popen[bytes] | None = None) -> None:
    """Returns once each of these processes has had so much of a CPU. watching: must not end meanwhile"""
    wanted = [(pid, cpu_ns(pid) + seconds * 1e9) for pid in pids]
    until(lambda: all(cpu_ns(pid) >= ns for pid, ns in wanted), watching)


def cpu_ns(pid: int) -> int:
    """The CPU time of a process of one thread, in ns."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def ends_where_it_should(data: Path) -> Path:
    """The recording, with the thread, time, id and CPU of each record on BPF programs at its end.

    Linux (seen on 6.18) makes such a record too large where several recordings are told of the same program: what
    belongs at its end follows its own fields, and then comes what the buffer held before. perf report takes that for
    the number of an event, and where it is none gives up. Other tests load programs meanwhile.
    """
    recorded = bytearray(data.read_bytes())
    attributes, _, at, size = struct.unpack_from("<4Q", recorded, 24)
    (sample_type,) = struct.unpack_from("<Q", recorded, attributes + 24)
    # Of these bits each that is set is eight bytes: TID, TIME, ID, CPU, STREAM_ID, IDENTIFIER.
    length = 8 * sum(sample_type >> bit & 1 for bit in (1, 2, 6, 7, 9, 16))
    last = at + size
    while at < last:
        kind, _, record_size = struct.unpack_from("<IHH", recorded, at)
        own = None
        if kind == 17:  # PERF_RECORD_KSYMBOL: a name of whole words
            own = at + 24 + (recorded.index(0, at + 24) - at - 24) // 8 * 8 + 8
        elif kind == 18:  # PERF_RECORD_BPF_EVENT
            own = at + 24
        at += record_size
        if own is not None:
            recorded[at - length : at] = recorded[own : own + length]
    data.write_bytes(recorded)
    return data


def run(*arguments: str | Path, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([stackfold_binary(), *map(str, arguments)], input=stdin, capture_output=True, check=False)


def stacks(output: bytes) -> Counter[bytes]:
    weights: Counter[bytes] = Counter()
    for line in output.splitlines():
        stack, _, weight = line.rpartition(b" ")
        weights[stack] += int(weight)
    return weights


def direct(data: Path, *options: str, of: bytes = b"") -> Counter[bytes]:
    """The stacks of the recording itself, without inlined functions; the same from one thread and from three.

    of: how those begin that are compared; files of other processes may change between the two
    """
    done, again = (run("-q", "--kernel", "--no-inlines", *options, *more, data) for more in ((), ("--threads", "3")))
    assert done.returncode == 0, done.stderr
    lines, others = ([line for line in one.stdout.splitlines() if line.startswith(of)] for one in (done, again))
    assert lines == others
    return stacks(done.stdout)


def by_text(data: Path, *options: str, script: tuple[str, ...] = ()) -> Counter[bytes]:
    argv = ["perf", "script", "--no-inline", "--max-stack", "4000", "-i", str(data), *script]
    text = subprocess.run(argv, check=True, capture_output=True, stdin=subprocess.DEVNULL).stdout
    done = run("-q", "--kernel", *options, stdin=text)
    assert done.returncode == 0, done.stderr
    return stacks(done.stdout)


def share_of_differences(ours: Counter[bytes], theirs: Counter[bytes]) -> float:
    """The share of weight in stacks that differ, after the totals were found equal.

    perf looks up the address a call returns to. The loader's `_start` ends with a call, so perf names what follows it.
    """
    theirs = Counter({stack.replace(b";_dl_start_user;", b";_start;"): weight for stack, weight in theirs.items()})
    assert sum(ours.values()) == sum(theirs.values()) > 0
    # pytest shows it of a test that fails.
    print("ours alone:", ours - theirs, "perf's alone:", theirs - ours)
    return sum((ours - theirs).values()) / sum(ours.values())


def checked(data: Path, *options: str) -> str:
    done = run("check", *options, data)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.decode()


def stats(data: Path, tmp_path: Path, *options: str) -> dict[str, Any]:
    path = tmp_path / "stats.json"
    run("-q", "--stats", path, *options, data)
    loaded: dict[str, Any] = json.loads(path.read_text())
    return loaded
