"""perf record, with the event that really counts, and edges known to the microsecond.

perf is started disabled and driven through its control pipe (`--control fd:`), so that a window begins when perf has
acknowledged `enable`, and its start-up is not part of any window.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from collectors.perf_so_far import copy_so_far
from collectors.stack_pages import touch_stacks
from ground.errors import HostError, MeasurementError
from ground.settings import Setting
from ground.system.observer import QUIET_SECONDS, attached
from ground.system.process import Child, Children, capture, tool_path
from ground.system.scratch import scratch_directory
from ground.text.progress import Reporter

# System-wide sampling of every CPU costs data, and a stack dump costs 16 KiB a sample: beyond this many CPUs the
# process alone is sampled.
_MAX_CPUS_SYSTEM_WIDE = {"auto": 16, "fp": 16, "dwarf": 4}
_ACK_SECONDS = 20.0
# After its last sample perf reads its whole file again, at some 100 MB a second: minutes for many gigabytes. One that
# hangs is ended sooner, by QUIET_SECONDS.
_WRITE_SECONDS = 600.0
# Of a stack, where nothing else is asked for; and as many as perf can: the length of a record has 16 bits.
COPIED_BYTES = 16384
MOST_COPIED_BYTES = 65_528


@dataclass(frozen=True)
class Plan:
    """How a profile will be recorded, and in words why.

    event:     what is asked of perf
    scope:     `process` (perf -p) or `system` (perf -a, folded for the pid alone)
    callgraph: `fp`, or `dwarf`, or `dwarf,BYTES` for copies of another length than `COPIED_BYTES`
    beside:    other events of its group, read with each of its samples
    trials:    call graphs that were tried, and the share of what ran that each left incomplete or lost
    """

    event: str
    frequency: int
    scope: str
    callgraph: str
    why: tuple[str, ...]
    beside: tuple[str, ...] = ()
    trials: Mapping[str, float] = field(default_factory=dict)

    @property
    def asked(self) -> str:
        """As perf is asked for it: of a group the leader alone samples."""
        return f"{{{','.join((self.event, *self.beside))}}}:S" if self.beside else self.event


def perf_binary() -> str:
    return tool_path("perf", "linux-perf")


@functools.cache
def perf_version() -> str:
    words = capture([perf_binary(), "--version"], timeout=20).text.split()
    return words[-1] if words else "unknown"


def core_kinds(devices: Path = Path("/sys/bus/event_source/devices")) -> list[str]:
    """The counters of a processor whose cores are of several kinds (`cpu_core`, `cpu_atom`); none of any other.

    Each of them has an event `cycles` of its own, and a recording has all of them (perf-list(1), "hybrid").
    """
    # What counts for a socket has `cpumask` instead.
    kinds = sorted(file.parent.name for file in devices.glob("*/cpus"))
    return kinds if len(kinds) > 1 else []


def plan_recording(event: str, frequency: int, callgraph: str) -> Plan:
    """Chooses event and scope by trying them. HostError with perf's own words when perf may not record at all.

    event: `auto`, a perf event name, or a group of them, `{leader,other,...}`
    callgraph: `fp`, `dwarf`, or `auto` (then `fp`, until a trial says otherwise)
    """
    if event.startswith("{"):
        leader, *beside = event.removesuffix(":S").strip("{}").split(",")
        return _with_group(plan_recording(leader, frequency, callgraph), tuple(beside))
    why: list[str] = []
    if event == "auto":
        cores = core_kinds()
        event = "cycles" if not cores and _counts("cycles") else "cpu-clock"
        if cores:
            why.append(f"each kind of core here has its own cycles ({', '.join(cores)}), which do not add up; ns do")
        elif event == "cpu-clock":
            why.append("no hardware cycles counter here, so weights are ns of CPU time")
    scope = "process"
    sampled_by_timer = event.partition(":")[0] in ("cpu-clock", "task-clock")
    if sampled_by_timer and (os.cpu_count() or 1) <= _MAX_CPUS_SYSTEM_WIDE[callgraph]:
        # Counting takes the same rights, and a tenth of the CPU of a recording, which reads the kernel's symbols.
        if _counts(event, ["-a"]):
            scope = "system"
            why.append(
                "recorded system-wide and folded for the process alone, because a per-process cpu-clock restarts at "
                "each switch-in and so favours finish_task_switch"
            )
        else:
            why.append("system-wide sampling is not permitted: the per-process clock is biased to finish_task_switch")
    if scope == "process":
        tried = _try(event, frequency)
        # perf falls back by itself where it can; where it does not, user mode alone is better than nothing.
        if tried.refusal and ":" not in event:
            user_mode = _try(f"{event}:u", frequency)
            tried = user_mode if user_mode.refusal is None else tried
        if tried.refusal and "util/build-id.c" in tried.refusal:
            raise HostError(
                f"perf {perf_version()} aborts when it records {event}: {tried.refusal}",
                means="another recording on this host runs with --buildid-mmap: the kernel then writes build IDs into "
                "every recording, on which older versions of perf abort",
                mend="pgrep -a perf   (once that recording has ended, the same command works; a newer perf may, too)",
            )
        if tried.refusal:
            raise HostError(
                f"perf cannot record {event}: {tried.refusal}",
                means=f"kernel.perf_event_paranoid is {_paranoid()}; without perf there is no profile",
                mend="sudo sysctl kernel.perf_event_paranoid=-1   (or run as root; -1 also allows kernel samples)",
            )
        if tried.recorded.startswith(f"{event}:u"):
            event = tried.recorded
            why.append("this user may not sample the kernel: shares are of user CPU alone")
    return Plan(event, frequency, scope, "fp" if callgraph == "auto" else callgraph, tuple(why))


def _with_group(plan: Plan, beside: tuple[str, ...]) -> Plan:
    """HostError, with perf's own words, where these cannot be read together."""
    grouped = replace(plan, beside=beside)
    refusal, _ = _recorded(grouped.asked, plan.frequency)
    if refusal is not None:
        raise HostError(
            f"perf cannot record {grouped.asked}: {refusal}",
            means="events of a group are counted together; a processor has few counters, a virtual machine often none",
            mend=f"perf stat -e {shlex.quote(grouped.asked.removesuffix(':S'))} -- true   (says which), then fewer",
        )
    return grouped


def system_wide(plan: Plan, reason: str) -> Plan:
    """The same plan for all processes of the host, where that is permitted; `reason` is added to its why."""
    if _counts(plan.event, ["-a"]):
        return replace(plan, scope="system", why=(*plan.why, f"recorded system-wide: {reason}"))
    return replace(plan, why=(*plan.why, f"system-wide sampling is not permitted, but {reason}"))


def _counts(event: str, scope: Sequence[str] = ()) -> bool:
    """True when perf may count `event` in that scope, and can: it says `<not supported>` where there is no counter."""
    done = capture([perf_binary(), "stat", "-x,", "-e", event, *scope, "--", "true"], timeout=20)
    first = done.errors.split(",", 1)[0].strip()
    return done.returncode == 0 and first[:1].isdigit()


@dataclass(frozen=True)
class _Trial:
    """A tiny recording: perf's own words when it was refused, else the event that the file says it holds."""

    refusal: str | None
    recorded: str = ""


def _try(event: str, frequency: int) -> _Trial:
    refusal, events = _recorded(event, frequency)
    if len(events) > 1:
        raise HostError(
            f"{event} is {len(events)} events here: {', '.join(events)}",
            means="a profile has one: weights of several do not add up",
            mend=f"{Setting.EVENT.to('cpu-clock')}, or one of them, on CPUs that have it: "
            f"taskset -c <CPUs> and {Setting.EVENT.to(shlex.quote(events[0]))}",
        )
    return _Trial(refusal, next(iter(events), event))


def _recorded(event: str, frequency: int) -> tuple[str | None, list[str]]:
    """perf's own words when it refused a tiny recording; else the events that the file says it holds."""
    with scratch_directory() as scratch:
        argv = [perf_binary(), "record", "-q", "-N", "-e", event, "-F", str(frequency)]
        data = scratch / "perf.data"
        done = capture([*argv, "-g", "-o", str(data), "--", "true"], timeout=30)
        if done.returncode == 0:
            return None, recorded_events(data)
    lines = [line.strip() for line in done.errors.splitlines() if line.strip() and not line.startswith("WARNING")]
    return " ".join(lines[:3])[:400] or f"exit code {done.returncode}", []


def _paranoid() -> str:
    try:
        return Path("/proc/sys/kernel/perf_event_paranoid").read_text(encoding="utf-8").strip()
    except OSError:
        return "unreadable"


def record_argv(plan: Plan, pids: Sequence[int], out: Path) -> list[str]:
    """The command line of a recording, without its control pipe.

    Threads and children that a process begins later are recorded too: perf's events are inherited. `-N`: the user's
    build-id cache is left alone.
    """
    copied = copied_bytes(plan.callgraph)
    graph = ["--call-graph", f"dwarf,{copied}"] if copied else ["-g"]
    scope = ["-a"] if plan.scope == "system" else ["-p", ",".join(map(str, pids))]
    # The clock of the windows: what a second of the profile holds can be held against the counters of that second.
    how = ["-k", "CLOCK_MONOTONIC", "-e", plan.asked, "-F", str(plan.frequency)]
    # No --buildid-mmap, which would spare perf the second reading of its file: a system-wide recording with it makes
    # the kernel (seen on 6.18) mark other recordings' mappings as if they had build ids, and their perf (6.1) aborts.
    return [perf_binary(), "record", "-N", *how, *graph, *scope, "-o", str(out)]


def copied_bytes(callgraph: str) -> int:
    """Of each stack, by a plan's call graph; 0 with frame pointers."""
    how, _, copied = callgraph.partition(",")
    return int(copied or COPIED_BYTES) if how == "dwarf" else 0


def with_dwarf(plan: Plan, reason: str, callgraph: str = "dwarf") -> Plan:
    """The same plan with DWARF unwinding, `reason` added to its why."""
    small = (os.cpu_count() or 1) <= _MAX_CPUS_SYSTEM_WIDE["dwarf"]
    scope = plan.scope if small else "process"
    return replace(plan, callgraph=callgraph, scope=scope, why=(*plan.why, reason))


def record_for(
    children: Children, plan: Plan, pid: int, out: Path, seconds: float, reporter: Reporter | None = None
) -> None:
    """Records for `seconds`, as a trial. MeasurementError or HostError when perf fails."""
    recording = Recording(children, plan, [pid], out, out.with_suffix(".log"), name="perf record (trial)")
    with attached(recording, reporter or Reporter(quiet=True)):
        recording.open()
        time.sleep(seconds)
        recording.close()


class Recording:
    """One perf record (an Observer): started disabled, enabled and disabled through its control pipe."""

    kind = "perf"
    takes_turns = True

    def __init__(
        self, children: Children, plan: Plan, pids: Sequence[int], out: Path, log: Path, name: str = "perf record"
    ) -> None:
        self.what = f"perf record, {plan.asked} at {plan.frequency} Hz, {plan.callgraph} call graphs"
        self._children, self._name = children, name
        self._argv, self._out = record_argv(plan, pids, out), out
        self._pids, self._copied = pids, copied_bytes(plan.callgraph)
        self._log = log
        self._child: Child | None = None

    def attach(self) -> None:
        """Starts perf; it samples nothing yet."""
        for pid in self._pids if self._copied else ():
            # Where this is not permitted, stackfold reports how much of the weight was cut.
            with contextlib.suppress(OSError):
                touch_stacks(pid, self._copied)
        command_read, self._command = os.pipe()
        self._ack, ack_write = os.pipe()
        argv = [*self._argv, "-D", "-1", "--control", f"fd:{command_read},{ack_write}"]
        try:
            self._child = self._children.start(
                self._name, argv, stderr=self._log, stop_signal=signal.SIGINT, pass_fds=(command_read, ack_write)
            )
        finally:
            os.close(command_read)
            os.close(ack_write)

    def open(self) -> None:
        """Begins sampling; returns once perf has said so."""
        self._order("enable")

    def close(self) -> None:
        """Ends sampling; returns once perf has said so."""
        self._order("disable")

    def copy_so_far(self, out: Path) -> None:
        """What it has recorded in its turns so far, as a whole file. Between two turns, after the first."""
        # Before perf reads a second order it has written what was in its buffers at the first.
        self._order("disable")
        copy_so_far(self._out, out)

    def _order(self, order: str) -> None:
        assert self._child is not None
        # Where perf has ended, the end of its answers says so, too.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._command, f"{order}\n".encode())
        if not self._child.await_answer(self._ack, _ACK_SECONDS, QUIET_SECONDS):
            raise self._failure(f"perf did not {order}")
        # perf acknowledges with "ack\n"; an end of file means that it is gone, as it is with the process it records.
        if not os.read(self._ack, 64):
            # How it ended may be known a moment later than that it did.
            self._child.wait(10.0)
            raise self._failure(f"perf ended before it could {order}")

    def detach(self) -> None:
        """Ends perf and waits until its file is whole. MeasurementError when it failed."""
        if self._child is None:
            return
        code = self._child.stop(grace=_WRITE_SECONDS, quiet=QUIET_SECONDS)
        os.close(self._command)
        os.close(self._ack)
        # perf ends itself with the signal that asked it to stop, after it has written its file; a shell around it, with
        # the number that shells have for that.
        if code not in (0, -signal.SIGINT, 128 + signal.SIGINT):
            raise self._failure("perf record failed")

    def _failure(self, what: str) -> HostError | MeasurementError:
        words = self._log.read_text(encoding="utf-8", errors="replace").strip()[-1000:] if self._log.exists() else ""
        end = self._child.describe_end() if self._child else "not started"
        message = f"{what} ({end}): {words or 'no error output'}"
        if "paranoid" in words or "ermission" in words:
            return HostError(message, mend="sudo sysctl kernel.perf_event_paranoid=-1")
        return MeasurementError(message, mend=f"read {shlex.quote(str(self._log))}")


def recorded_events(data: Path) -> list[str]:
    """The events in a recording as the file names them: asked for `cycles` without a PMU, it says `cpu-clock`."""
    listing = capture([perf_binary(), "evlist", "-i", str(data)], timeout=60).require("perf evlist")
    names = (line.strip() for line in listing.text.splitlines() if line and not line.startswith("#"))
    return [name for name in names if not name.startswith("dummy")]
