"""What watching a process takes: per missing right the least that grants it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from collectors.perf import plan_recording
from ebpf.checks import instrument_checks
from ground.errors import HostError
from ground.results.checks import Check, Verdict
from ground.system.held_process import HeldProcess


def attach_checks(pid: int) -> list[Check]:
    """UsageError where there is no such process."""
    process = HeldProcess(pid)
    return [*_process_checks(process), *_perf_checks(), *_ebpf_checks(), *_name_checks()]


def _grant(capability: str) -> str:
    """How a user is given one capability, for one command."""
    if os.geteuid() == 0:
        return f"on the host, or in a container started with --cap-add={capability.upper()}"
    user = str(os.getuid())
    own = f"--reuid={user} --clear-groups --inh-caps=+{capability} --ambient-caps=+{capability}"
    return f"sudo setpriv {own} ioflame attach ..."


def _process_checks(process: HeldProcess) -> Iterator[Check]:
    """Its counters and its files: another user's need CAP_SYS_PTRACE, deleted ones CAP_CHECKPOINT_RESTORE."""
    for name, file, without, capability in (
        ("counters", "io", "nothing of it can be counted: there is no attaching", "sys_ptrace"),
        (
            "its files",
            "root/",
            "its files do not identify the service, and libraries in another mount namespace have no names",
            "sys_ptrace",
        ),
        (
            "deleted files",
            "map_files/",
            "what it has loaded and was deleted or replaced since has no names",
            "checkpoint_restore",
        ),
    ):
        try:
            if file.endswith("/"):
                for entry in itertools.islice(process.path(file).iterdir(), 1):
                    entry.stat()
                process.path("maps").read_bytes()
            else:
                process.path(file).read_bytes()
            yield Check(name, Verdict.OK, f"/proc/{process.pid}/{file} may be read")
        except OSError as error:
            worst = Verdict.BLOCKED if name == "counters" else Verdict.WARN
            yield Check(name, worst, f"/proc/{process.pid}/{file}: {error.strerror}", without, _grant(capability))


def _perf_checks() -> Iterator[Check]:
    try:
        plan = plan_recording("auto", 49, "fp")
    except HostError as error:
        yield Check("CPU profile", Verdict.BLOCKED, error.what, "there are no categories", _grant("perfmon"))
        return
    if plan.event.endswith(":u"):
        yield Check(
            "CPU profile", Verdict.WARN, f"{plan.event}: user mode alone", "what the kernel does for it is not seen",
            _grant("perfmon"),
        )  # fmt: skip
    else:
        yield Check("CPU profile", Verdict.OK, f"{plan.event}, scope {plan.scope}")


def _ebpf_checks() -> Iterator[Check]:
    checks = list(instrument_checks())
    if all(check.verdict is Verdict.WARN for check in checks):
        # Not one: it is no matter of the kernel's age.
        yield Check(
            "eBPF", Verdict.WARN, checks[0].value, "there is no latency of storage, and no account of waits",
            _grant("bpf,+perfmon"),
        )  # fmt: skip
        return
    yield from checks


def _name_checks() -> Iterator[Check]:
    """The kernel shows addresses of its functions to those with CAP_SYSLOG, or where kptr_restrict is 0."""
    with Path("/proc/kallsyms").open(encoding="ascii", errors="replace") as file:
        shown = any(int(line.split()[0], 16) for line, _ in zip(file, range(1000), strict=False))
    if shown:
        yield Check("kernel names", Verdict.OK, "/proc/kallsyms shows addresses")
    else:
        yield Check(
            "kernel names", Verdict.WARN, "/proc/kallsyms shows no addresses", "kernel frames have no names",
            _grant("syslog") + "   (or: sudo sysctl kernel.kptr_restrict=0)",
        )  # fmt: skip
