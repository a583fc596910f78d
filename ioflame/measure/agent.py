"""Services of a host profiled now and then, into a store: each at a time and with a chance that a hash decides.

Of all hosts of a service as many profiles are taken in a period as give the samples that were asked for. When a host
wakes, and whether it takes one, follows from a hash of host, service and period, so hosts need not know of each other.
The probability with which a moment of CPU time was recorded is kept with each profile.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec

from ground.errors import IoflameError, MeasurementError, RefusedError, UsageError
from ground.results.run import open_run
from ground.results.store.database import Store
from ground.system.atomic_files import read_toml, write_whole
from ground.system.host import host_facts
from ground.system.http_answer import http_answer
from ground.system.process import Children, capture
from ground.system.run_module import module_argv
from ground.system.scratch import scratch_directory
from ground.text.progress import Reporter
from ioflame.measure.attach.continuous import (
    RECENT_SECONDS,
    keep_recent,
    keep_requests,
    parse_duration,
    remove_old,
    tell_kept,
)
from ioflame.measure.attach.session import recorded_share
from ioflame.store.add import add_to_store

# What `ioflame attach` is asked for where the service does not say.
_ATTACH: Mapping[str, str | int | float | bool] = {"collect": "perf", "freq": 49}
_ANSWER_SECONDS = 300.0
_MOST_BYTES = 256 << 20
_VERSION_SECONDS = 30.0
# Of a run beyond its seconds: then its analysis hangs.
_ANALYSIS_SECONDS = 1800.0
_LOOK_SECONDS = 0.5
# A host that is so much later than it was to wake has slept: no sleep of ours is longer than a look.
_LATE_SECONDS = 10.0
_RECORDER = "recorder"


class ServiceConfig(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """cgroup, container: what `ioflame attach` watches, or pprof: an address that hands out a profile; one of them

    version: its name in the store; version_command: prints it instead
    seconds: of a profile; samples: that are wanted of all hosts in a period
    hosts: that have this service; cores: that it uses on one, 0: as many as the host has
    recorder: from start to start of the runs of its flight recorder; "" for none
    attach: options of `ioflame attach`: {collect = "perf", budget = "0.5%", redact = true}
    """

    name: str
    cgroup: str = ""
    container: str = ""
    pprof: str = ""
    version: str = ""
    version_command: str = ""
    seconds: float = 20.0
    samples: Annotated[int, msgspec.Meta(ge=1, le=10**12)] = 40_000
    hosts: Annotated[int, msgspec.Meta(ge=1, le=10**9)] = 1
    cores: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 0.0
    recorder: str = ""
    attach: dict[str, str | int | float | bool] = msgspec.field(default_factory=dict)


class Agent(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """store: its directory; out: where run directories go, for `keep`; host: what it is called, "" for a hash of its
    machine-id; every: the period
    """

    store: str
    service: list[ServiceConfig]
    out: str = "runs"
    keep: str = "1d"
    every: str = "1h"
    host: str = ""


@dataclass(frozen=True)
class Turn:
    """after: seconds from the period's begin; taken: whether a profile is; chance: that one is"""

    after: float
    taken: bool
    chance: float


def read_agent(path: Path) -> Agent:
    """UsageError where it is no TOML, or has a word or a value that makes no sense; it names the place."""
    try:
        agent = msgspec.convert(read_toml(path), Agent)
    except (OSError, ValueError) as error:
        raise RefusedError(f"{path}: {error}", mend="docs/fleet.md has an example") from None
    for one in agent.service:
        # A directory of the name is made, below `out`.
        if not re.fullmatch(r"\w[\w .:@+-]*", one.name):
            raise UsageError(
                f"{path}: a service is called {one.name!r}",
                means="its runs lie in a directory of that name",
                mend="a name of letters, digits, blanks and . : @ + - _, of which the first is a letter or a digit",
            )
        named = [key for key in ("cgroup", "container", "pprof") if getattr(one, key)]
        if len(named) != 1:
            raise UsageError(
                f"{path}: the service {one.name} has {' and '.join(named) or 'no target'}",
                mend="one of cgroup, container, pprof",
            )
        period = parse_duration("every", agent.every)
        if not 0 < one.seconds < period:
            raise UsageError(
                f"{path}: the service {one.name} has seconds = {one.seconds:g}", mend="seconds below those of every"
            )
        if not _is_frequency(one.attach.get("freq", 1)):
            raise UsageError(
                f"{path}: the service {one.name} has attach.freq {one.attach['freq']!r}",
                means="how many samples a profile has is not known, nor with what chance one is taken",
                mend="samples a second and CPU: freq = 49",
            )
        if one.recorder and (one.pprof or parse_duration("recorder", one.recorder) <= one.seconds):
            raise UsageError(
                f"{path}: the service {one.name} cannot have a recorder of every {one.recorder}",
                means="its runs are of ioflame attach, one after the other",
                mend="recorder above seconds, and a cgroup or container",
            )
    if len({one.name for one in agent.service}) < len(agent.service):
        raise UsageError(f"{path}: two services have one name", mend="a name for each")
    return agent


def _is_frequency(value: str | float) -> bool:
    text = str(value)
    return type(value) is not bool and text.isascii() and text.isdigit() and len(text) <= 5 and int(text) > 0


def turn_of(service: ServiceConfig, host: str, period: int, every: float) -> Turn:
    """When this host wakes in a period for the service, and whether it takes a profile: the same whenever it is asked.

    every: seconds of a period
    """
    hashed = hashlib.blake2b(f"{host}\0{service.name}\0{period}".encode(), digest_size=16).digest()
    after, draw = (number / 2**64 for number in struct.unpack("<2Q", hashed))
    cores = service.cores or len(os.sched_getaffinity(0))
    options = {**_ATTACH, **service.attach}
    share = 1.0 if service.pprof else recorded_share(str(options["collect"]).replace(",", " ").split())
    of_profile = float(options["freq"]) * cores * service.seconds * share
    chance = min(1.0, service.samples / (service.hosts * of_profile)) if of_profile else 1.0
    return Turn(after * (every - service.seconds), draw < chance, chance)


def run_agent(agent: Agent, reporter: Reporter, *, once: bool = False) -> int:
    """Period after period until interrupted (`once`: one that begins now); returns how many profiles failed.

    One profile at a time. A failure is reported, and the others continue. Between them the flight recorders run, and
    SIGUSR1 keeps the runs of the last 15 minutes of all services for good. A profile that came due while the host slept
    is missed: it would be taken now, at a time that no hash chose, and once for each period. A profile that came due
    during other work is taken late, but never after its period.
    """
    every, keep = parse_duration("every", agent.every), parse_duration("keep", agent.keep)
    host = agent.host or host_facts()["host_id"]
    if host == "unknown":
        raise UsageError(
            "/etc/machine-id names no machine", means="all such hosts would wake at once", mend="host = NAME"
        )
    Store(Path(agent.store), create=True)
    # What came before we were started, or woke, is nobody's.
    awake, failed = time.time(), 0
    period = int(awake // every)
    start = awake if once else period * every
    with keep_requests() as requested, Children() as children:
        recorders = _Recorders(agent, children, reporter, requested)
        while True:
            turns = [(turn_of(one, host, period, every), one) for one in agent.service]
            for turn, service in sorted(turns, key=lambda pair: pair[0].after):
                due = start + turn.after
                if not turn.taken or due < awake:
                    continue
                if not recorders.until(due):
                    awake = time.time()
                    continue
                if time.time() >= start + every and not once:
                    reporter.warn(f"{service.name}: a profile was missed: its period was over before other work was")
                    continue
                try:
                    _profile(agent, service, host, turn.chance / every, keep, children)
                except IoflameError as error:
                    failed += 1
                    reporter.warn(f"{service.name}: {error}")
            if once:
                return failed
            period = max(period + 1, int(time.time() // every))
            start = period * every
            if not recorders.until(start):
                awake = time.time()


@dataclass
class _Recorders:
    """What a host does between its profiles: the runs of flight recorders, none of which goes into the store.

    due: when a service's next is
    """

    agent: Agent
    children: Children
    reporter: Reporter
    requested: Callable[[], bool]
    due: dict[str, float] = field(default_factory=dict)

    def until(self, end: float) -> bool:
        """Waits; a run that has begun by then is waited for. False where the time passed while the host slept, or we
        were stopped."""
        slept = False
        while True:
            if self.requested():
                self._keep()
            now = time.time()
            if now >= end:
                if slept:
                    self.reporter.warn(f"the host slept for {now - end:.0f} s or more: what came due then is missed")
                return not slept
            ready = (one for one in self.agent.service if one.recorder and self.due.get(one.name, 0.0) <= now)
            service = next(ready, None)
            if service is None:
                time.sleep(min(_LOOK_SECONDS, end - now))
                slept = time.time() > end + _LATE_SECONDS
                continue
            self.due[service.name] = now + parse_duration("recorder", service.recorder)
            self._record(service)

    def _record(self, service: ServiceConfig) -> None:
        out = _out(self.agent, service) / _RECORDER
        try:
            _attached(service, service.recorder, out, self.children)
        except IoflameError as error:
            self.reporter.warn(f"{service.name}, recorder: {error}")
        remove_old(out, _asked(service), RECENT_SECONDS)

    def _keep(self) -> None:
        kept = []
        for service in (one for one in self.agent.service if not one.pprof):
            for out in (_out(self.agent, service), _out(self.agent, service) / _RECORDER):
                kept += [str(out / name) for name in keep_recent(out, _asked(service))] if out.is_dir() else []
        tell_kept(kept, self.reporter)


def _out(agent: Agent, service: ServiceConfig) -> Path:
    return Path(agent.out) / service.name


def _profile(agent: Agent, service: ServiceConfig, host: str, rate: float, keep: float, children: Children) -> None:
    """rate: the probability of a moment to be recorded, for each second that a profile records"""
    version = _version(service)
    said = {"test": service.name, "workload": service.name, "host": host} | ({"version": version} if version else {})
    if service.pprof:
        with scratch_directory() as place:
            path = place / f"{service.name}.pb.gz"
            write_whole(path, _fetched(service.pprof))
            said |= {"probability": repr(min(1.0, rate * service.seconds))}
            add_to_store(Store(Path(agent.store)), path, said, "pprof")
    else:
        out = _out(agent, service)
        run = _attached(service, agent.every, out, children)
        recorded = sum(window.seconds for window in open_run(run).record.windows if window.kind == "perf")
        if not recorded:
            raise MeasurementError(f"{run} holds no recording of perf", mend=shlex.join(["ioflame", "show", str(run)]))
        add_to_store(Store(Path(agent.store)), run, said | {"probability": repr(min(1.0, rate * recorded))})
        remove_old(out, _asked(service), keep)


def _asked(service: ServiceConfig) -> str:
    return f"--cgroup {service.cgroup}" if service.cgroup else f"--container {service.container}"


def _attached(service: ServiceConfig, every: str, out: Path, children: Children) -> Path:
    """A run of `ioflame attach`, which is a process of its own; its directory. every: the time that a budget is of"""
    words = [*_asked(service).split(" ", 1), "--seconds", f"{service.seconds:g}", "--out", str(out), "--quiet"]
    given = {**_ATTACH, **({"per": every} if "budget" in service.attach else {}), **service.attach}
    said = {name: value for name, value in given.items() if value is not False}
    words += [f"--{name}" if value is True else f"--{name}={value}" for name, value in said.items()]
    out.mkdir(parents=True, exist_ok=True)
    latest, log = out / "latest", out / "attach.log"
    before = latest.resolve()
    child = children.start("ioflame attach", [*module_argv("ioflame.cli"), "attach", *words], stdout=log)
    if child.wait(service.seconds + _ANALYSIS_SECONDS) is None:
        child.stop()
    # Exit code 1: measured, while a check failed, which the store holds as well.
    if child.returncode not in (0, 1) or latest.resolve() == before:
        raise MeasurementError(f"ioflame attach ended with {child.describe_end()}", mend=shlex.join(["less", str(log)]))
    return latest.resolve()


def _fetched(address: str) -> bytes:
    try:
        return http_answer(address, _ANSWER_SECONDS, _MOST_BYTES)
    except OSError as error:
        raise MeasurementError(
            f"{address} hands out no profile: {error}", mend=shlex.join(["curl", "-o", "x.pb.gz", address])
        ) from None


def _version(service: ServiceConfig) -> str:
    if not service.version_command:
        return service.version
    done = capture(["sh", "-c", service.version_command], timeout=_VERSION_SECONDS).require("the version's command")
    words = done.text.partition("\n")[0].strip()
    if not words:
        raise MeasurementError(f"the version's command prints none: {service.version_command}")
    return words
