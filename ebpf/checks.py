"""Which kinds of eBPF program this host lets us load: tried, never inferred from a version or a tool's own claims."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from ioflame.checks import Check, Verdict
from ioflame.errors import IoflameError
from ioflame.process import capture

__all__ = ("ebpf_checks",)

_LATER = "latency histograms need it; a CPU profile does not"


def ebpf_checks() -> Iterator[Check]:
    """BTF, tracefs, and a bpftrace program that must really attach and count something."""
    btf = Path("/sys/kernel/btf/vmlinux")
    if btf.exists():
        yield Check("BTF", Verdict.OK, str(btf))
    else:
        yield Check(
            "BTF", Verdict.WARN, "none", "CO-RE programs cannot be loaded", "a kernel with CONFIG_DEBUG_INFO_BTF"
        )
    yield _tracepoint_check()
    yield _bpftrace_check()


def _tracepoint_check() -> Check:
    for root in ("/sys/kernel/tracing", "/sys/kernel/debug/tracing"):
        if os.access(f"{root}/events/block/block_rq_issue/id", os.R_OK):
            return Check("tracepoints", Verdict.OK, f"{root}/events")
    return Check(
        "tracepoints",
        Verdict.WARN,
        "block:block_rq_issue cannot be read",
        _LATER,
        "run as root; sudo mount -t tracefs tracefs /sys/kernel/tracing",
    )


def _bpftrace_check() -> Check:
    if shutil.which("bpftrace") is None:
        return Check("bpftrace", Verdict.WARN, "not installed", _LATER, "sudo apt-get install bpftrace")
    # An attached program that never fires looks like an empty result: the interval makes it count to one.
    program = "tracepoint:sched:sched_switch { @n = count(); } interval:ms:100 { exit(); }"
    try:
        done = capture(["bpftrace", "-q", "-e", program], timeout=30)
    except IoflameError as error:
        return Check("bpftrace", Verdict.WARN, error.what, _LATER)
    if done.returncode == 0 and "@n: " in done.text and "@n: 0" not in done.text:
        version = capture(["bpftrace", "--version"], timeout=20).text.split()
        return Check(
            "bpftrace", Verdict.OK, f"{version[-1] if version else ''}, a tracepoint program attached and counted"
        )
    words = [line for line in done.errors.splitlines() if "RLIMIT_MEMLOCK" not in line]
    return Check(
        "bpftrace", Verdict.WARN, (" ".join(words) or f"exit code {done.returncode}")[:200], _LATER, "run as root"
    )
