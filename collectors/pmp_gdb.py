"""The classic poor man's profiler: gdb stops the whole process, prints every stack, lets it go.

For those who want gdb's names or have nothing else: it stops all threads for tenths of a second. gdb is never asked to
end while it is attached, because SIGTERM leaves the process stopped for good; after each sample the process's state is
looked at, and it is continued where gdb did not.

What stacksampler hides from the process, gdb does not: each stop ends system calls with EINTR (signal(7): by stop
signals), and lets sleeping threads call restart_syscall, which a seccomp filter may forbid on pain of death.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from collectors.gdb_stacks import stacks_by_thread
from collectors.pmp_plan import PmpPlan
from ground.errors import HostError, IoflameError, MeasurementError, UsageError
from ground.results.files import Files
from ground.results.pmp import Durations, Lacking, Pmp, Tally, ThreadSamples, WaitPlace
from ground.results.states import SAMPLED_FRAMES
from ground.system.atomic_files import write_json
from ground.system.control import CLOSE, OPEN, READY, answer_line
from ground.system.held_process import HeldProcess
from ground.system.process import OWN_GROUP, tool_path
from ground.system.run_module import module_argv

# A process that is stopped for a larger share of its time has the profile of a stopped process.
_MOST_STOPPED = 0.5
# Between two looks at whether gdb has stopped it.
_LOOK_SECONDS = 0.001


class Gdb:
    name = "gdb"

    def describe(self, plan: PmpPlan) -> str:
        return f"gdb, the whole process stopped {plan.hz:g} times a second"

    def command(self, plan: PmpPlan, pid: int, directory: Path) -> list[str]:
        tool_path("gdb", "gdb")
        argv = [*module_argv("collectors.pmp_gdb"), f"--pid={pid}", f"--hz={plan.hz:g}"]
        argv += [f"--budget-ms={plan.budget_ms:g}", f"--directory={directory}"]
        return [*argv, "--force"] if plan.force else argv


def gdb_argv(pid: int) -> list[str]:
    """No init files, no debug information (its reading is most of the pause), no scripts that libraries bring."""
    settings = ["set width 0", "set height 0", "set auto-load no", "set print thread-events off"]
    before = [word for setting in settings for word in ("-iex", setting)]
    return [
        tool_path("gdb", "gdb"),
        "-nx",
        "-readnever",
        "-batch",
        *before,
        "-p",
        str(pid),
        "-ex",
        "thread apply all bt",
    ]


class _Process(HeldProcess):
    """The target."""

    def state(self, tid: int | None = None) -> str:
        return (self.stat(tid)[:1] or [b"?"])[0].decode("ascii", "replace")

    def read(self, tid: int, name: str) -> bytes:
        try:
            return self.path(f"task/{tid}/{name}").read_bytes().strip()
        except OSError:
            return b""


class _Sampling:
    """The samples so far."""

    def __init__(self, process: _Process) -> None:
        self.process = process
        self.stacks: Counter[bytes] = Counter()
        self.counts: Counter[bytes] = Counter()
        self.threads: dict[int, tuple[str, Counter[str], Counter[str]]] = {}
        self.waits: dict[tuple[str, str, int], list[int]] = {}
        self.pauses: list[int] = []
        self.failed: list[str] = []
        self.continued = 0
        self.ended = 0
        self._last: dict[int, int] = {}
        self._begun = time.monotonic_ns()

    def begin(self) -> None:
        """Forgets the trial."""
        self.pauses.clear()
        self.failed.clear()
        self._begun = time.monotonic_ns()

    def pause(self) -> tuple[bytes, str]:
        """One run of gdb: its text, and its complaint if it failed. The pause is what the process's state shows."""
        process = self.process
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
            first = last = 0
            gdb = subprocess.Popen(
                gdb_argv(process.pid), stdin=subprocess.DEVNULL, stdout=out, stderr=errors, **OWN_GROUP
            )
            while gdb.poll() is None:
                if process.state() in "tT":
                    last = time.monotonic_ns()
                    first = first or last
                time.sleep(_LOOK_SECONDS)
            if process.state() == "T":
                # Whatever gdb did: it was not stopped before.
                with contextlib.suppress(ProcessLookupError):
                    process.send(signal.SIGCONT)
                self.continued += 1
            out.seek(0)
            errors.seek(0)
            text = out.read()
            words = errors.read().decode("utf-8", "replace").strip()
        # It was stopped for a look at least, where it was seen so.
        self.pauses.append(max(last - first, int(_LOOK_SECONDS * 1e9) * bool(first)))
        return text, "" if gdb.returncode == 0 else words[-400:] or f"gdb ended with {gdb.returncode}"

    def sample(self) -> None:
        process = self.process
        looks = {}
        for tid in process.threads():
            state = process.state(tid)
            entered = process.read(tid, "syscall").split(b" ")[0] if state in "SD" else b""
            wchan = process.read(tid, "wchan").decode("utf-8", "replace") if state in "SD" else ""
            call = int(entered) if entered.lstrip(b"-").isdigit() else -1
            looks[tid] = (state if state in "RSD" else "T" if state in "Tt" else "?", wchan.strip("0"), call)
        if not looks:
            return
        now = time.monotonic_ns()
        text, complaint = self.pause()
        # gdb knows processes by their numbers alone: what it printed may be of the next one.
        stacks = stacks_by_thread(text, looks.keys()) if process.alive else {}
        if not stacks:
            if process.alive:
                self.failed.append(complaint or "gdb printed no stack")
            return
        for tid, (state, wchan, call) in looks.items():
            if tid not in stacks:
                self.ended += 1
                continue
            weight = now - self._last.get(tid, self._begun)
            self._last[tid] = now
            self._keep(tid, stacks[tid], (state, wchan, call), weight)

    def _keep(self, tid: int, frames: list[bytes], wait: tuple[str, str, int], weight: int) -> None:
        comm = self.process.read(tid, "comm")
        # As stackfold has it: a name is one word without `;`.
        word = comm.translate(bytes.maketrans(b"; \t\n\r", b":____")) or b"?"
        stack = b";".join([word, *frames, SAMPLED_FRAMES[wait[0]].encode()])
        self.stacks[stack] += weight
        self.counts[stack] += 1
        _, samples, weights = self.threads.setdefault(tid, (comm.decode("utf-8", "replace"), Counter(), Counter()))
        samples[wait[0]] += 1
        weights[wait[0]] += weight
        tally = self.waits.setdefault(wait, [0, 0])
        tally[0] += 1
        tally[1] += weight


def _durations(values: list[int]) -> Durations:
    ordered = sorted(values)
    n = len(ordered)

    def at(share: float) -> int:
        return ordered[min(max(-int(-share * n // 1) - 1, 0), n - 1)] if n else 0

    return Durations(n, sum(ordered), sum(ordered) // n if n else 0, at(0.5), at(0.9), at(0.99), at(1.0))


def _result(sampling: _Sampling, hz: float, times: tuple[int, int], rounds: tuple[int, int], end: str) -> Pmp:
    states: dict[str, list[int]] = {}
    threads = []
    for tid, (name, samples, weights) in sorted(sampling.threads.items()):
        by_state = {state: Tally(samples[state], weights[state]) for state in sorted(samples)}
        threads.append(ThreadSamples(tid, name, samples.total(), weights.total(), by_state))
        for state, tally in by_state.items():
            total = states.setdefault(state, [0, 0])
            total[0] += tally.samples
            total[1] += tally.weight_ns
    places = [WaitPlace(*wait, samples=tally[0], weight_ns=tally[1]) for wait, tally in sampling.waits.items()]
    notes = [
        "gdb -readnever reads no unwind tables: callers may be missing, and [unknown] may be no frame at all",
        "each stop by gdb ends calls like epoll_wait, or recv with a timeout, with EINTR: the process has seen it",
    ]
    notes += [f"gdb failed {len(sampling.failed)} times: {sampling.failed[-1]}"] if sampling.failed else []
    if sampling.continued:
        notes.append(f"gdb left the process stopped {sampling.continued} times: it was continued each time")
    used = os.times()
    return Pmp(
        sampler="gdb",
        pid=sampling.process.pid,
        event="wall-clock",
        hz=hz,
        callgraph="gdb",
        stack_bytes=0,
        start_ns=times[0],
        end_ns=times[1],
        end=end,
        rounds=rounds[0],
        late_rounds=rounds[1],
        samples=sampling.counts.total(),
        weight_ns=sampling.stacks.total(),
        states={state: Tally(*total) for state, total in sorted(states.items())},
        threads=threads,
        places=sorted(places, key=lambda place: -place.weight_ns),
        held=_durations(sampling.pauses),
        stop=_durations(sampling.pauses),
        lacking=Lacking(ended=sampling.ended),
        cpu_ns=int((used.user + used.system + used.children_user + used.children_system) * 1e9),
        notes=notes,
        whole_process=True,
    )


def _trial(sampling: _Sampling, hz: float, budget_ms: float, force: bool) -> None:
    """One pause before anything counts: refused where it is too long, or the process would be stopped mostly."""
    text, complaint = sampling.pause()
    pid = sampling.process.pid
    if complaint and not stacks_by_thread(text, sampling.process.threads()):
        raise HostError(
            f"gdb cannot read process {pid}: {complaint.splitlines()[0]}",
            means="kernel.yama.ptrace_scope, another tracer, or another user's process",
            mend="run as root; or --sampler stacksampler",
        )
    pause = sampling.pauses[-1] / 1e6
    if force:
        return
    if pause > budget_ms:
        raise HostError(
            f"gdb stops the whole of process {pid} for {pause:.0f} ms a sample; the budget is {budget_ms:g} ms",
            means="clients would see it",
            mend="--sampler stacksampler (it stops one thread, for microseconds), or --force",
        )
    if pause * hz / 1e3 > _MOST_STOPPED:
        raise UsageError(
            f"gdb stops process {pid} for {pause:.0f} ms a sample: {hz:g} times a second it would be stopped "
            f"{min(pause * hz / 10, 100):.0f} % of the time",
            means="the profile would be one of a stopped process",
            mend=f"--hz {max(_MOST_STOPPED * 1e3 / pause / 2, 0.1):.1g}, or --sampler stacksampler, or --force",
        )


def _refuse_harm(process: _Process, force: bool) -> None:
    """HostError where gdb cannot attach, or may kill the process with its first stop."""
    pid = process.pid
    if process.state() == "Z":
        raise HostError(
            f"the first thread of process {pid} has ended",
            means="gdb takes that for the end of the process, and does not attach",
            mend="--sampler stacksampler",
        )
    statuses = [process.read(tid, "status") for tid in process.threads()]
    if not force and any(re.search(rb"^Seccomp:\t[12]$", status, re.MULTILINE) for status in statuses):
        raise HostError(
            f"seccomp filters the system calls of process {pid}",
            means="where the filter forbids restart_syscall, the first stop by gdb kills the process",
            mend="--sampler stacksampler (its stops need no such call), or --force",
        )


class _Control:
    """The program's end of the control protocol (crates/observer/src/control.rs): neither an order nor the signal that
    ends us interrupts gdb."""

    def __init__(self, pipes: str) -> None:
        self._orders, self._answers = map(int, pipes.split(","))
        self.end = ""
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(signum, self._signalled)

    def _signalled(self, _signum: int, _frame: object) -> None:
        self.end = self.end or "signal"

    def answer(self, word: str, ns: int) -> None:
        with contextlib.suppress(OSError):
            os.write(self._answers, answer_line(word, ns))

    def await_open(self) -> None:
        """MeasurementError where the end comes instead."""
        self.answer(READY, time.monotonic_ns())
        if self._await_order(math.inf) != OPEN:
            raise MeasurementError("the window was never opened")
        self.end = ""

    def await_end(self, seconds: float) -> None:
        """Returns after so long, or once `end` says what closed the window."""
        self._await_order(time.monotonic() + seconds)

    def _await_order(self, deadline: float) -> str:
        """The next order, "" when none came in time; any sets `end`."""
        while not self.end:
            left = max(min(deadline - time.monotonic(), 0.2), 0)
            if select.select([self._orders], [], [], left)[0]:
                self.end = "closed"
                return os.read(self._orders, len(f"{OPEN}\n")).decode("ascii", "replace").strip()
            if time.monotonic() >= deadline:
                break
        return ""


def _run(arguments: argparse.Namespace) -> None:
    control = _Control(arguments.control)
    process = _Process(arguments.pid)
    if process.state() in "tT":
        raise HostError(
            f"process {process.pid} is stopped already",
            means="gdb would resume it",
            mend=f"kill -CONT {process.pid}; or --sampler stacksampler, which leaves it stopped",
        )
    _refuse_harm(process, arguments.force)
    sampling = _Sampling(process)
    _trial(sampling, arguments.hz, arguments.budget_ms, arguments.force)
    control.await_open()
    sampling.begin()
    begun = time.monotonic_ns()
    interval = 1 / arguments.hz
    control.answer(OPEN, begun)
    slot = rounds = late = 0
    end = ""
    while not end:
        control.await_end(begun / 1e9 + (slot + 0.5) * interval - time.monotonic())
        end = control.end or ("" if process.alive else "target ended")
        if not end:
            sampling.sample()
            rounds += 1
            reached = int((time.monotonic_ns() - begun) / 1e9 / interval)
            late += max(reached - slot - 1, 0)
            slot = max(reached, slot + 1)
    ended = time.monotonic_ns()
    control.answer(CLOSE, ended)
    directory = Path(arguments.directory)
    for name, stacks in ((Files.PMP_FOLDED, sampling.stacks), (Files.PMP_COUNTS, sampling.counts)):
        lines = (b"%s %d\n" % item for item in sorted(stacks.items()))
        (directory / name).write_bytes(b"".join(lines))
    write_json(directory / Files.PMP_RAW, _result(sampling, arguments.hz, (begun, ended), (rounds, late), end))
    if not sampling.counts and sampling.failed:
        raise MeasurementError(f"gdb failed each of {len(sampling.failed)} times: {sampling.failed[-1]}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="collectors.pmp_gdb", description=__doc__)
    parser.add_argument("--pid", type=int, required=True)
    parser.add_argument("--hz", type=float, required=True)
    parser.add_argument("--budget-ms", type=float, required=True)
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--directory", required=True)
    parser.add_argument("--control", required=True)
    try:
        _run(parser.parse_args())
    except IoflameError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
