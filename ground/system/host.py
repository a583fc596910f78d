"""The machine a run was made on, as facts for `run.json` and for the line under a figure."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from pathlib import Path

from ground.system.diskstats import whole_disk

_CPU = "/sys/devices/system/cpu"


def host_facts() -> dict[str, str]:
    """CPU model, count and nominal clock, memory, kernel, distribution, governor, VM, and what else makes one host
    another than the next of its type; `unknown` if not stated.

    host_id: hashed, so that two runs can be recognised as of one machine, and the machine stays unknown
    """
    cpuinfo = _text("/proc/cpuinfo")
    return {
        "cpu": _field(cpuinfo, "model name") or _field(cpuinfo, "CPU part") or "unknown",
        "cpus": str(os.cpu_count() or 0),
        "architecture": platform.machine(),
        "memory_kib": (_field(_text("/proc/meminfo"), "MemTotal") or "0").split()[0],
        "kernel": platform.release(),
        "distribution": _distribution(),
        "nominal_ghz": _nominal_ghz(cpuinfo),
        "governor": _text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip() or "unknown",
        "clocksource": _text("/sys/devices/system/clocksource/clocksource0/current_clocksource").strip() or "unknown",
        "hypervisor": "yes" if " hypervisor" in cpuinfo else "no",
        "host_id": _host_id(),
        "boot_id": _text("/proc/sys/kernel/random/boot_id").strip()[:13] or "unknown",
        "microcode": _field(cpuinfo, "microcode") or "unknown",
        "mitigations": _mitigations(),
        "smt": _text(f"{_CPU}/smt/control").strip() or "unknown",
        "transparent_hugepages": _chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
        "aslr": _text("/proc/sys/kernel/randomize_va_space").strip() or "unknown",
    }


def disk_facts(major: int, minor: int) -> dict[str, str]:
    """Model, scheduler and readahead of a block device, of a partition its disk's; `unknown` where none is stated."""
    disk = whole_disk(major, minor)
    return {
        "disk_model": _text(f"{disk}/device/model").strip() or "unknown",
        "disk_scheduler": _chosen(f"{disk}/queue/scheduler"),
        "disk_read_ahead_kb": _text(f"{disk}/queue/read_ahead_kb").strip() or "unknown",
    }


def _host_id() -> str:
    """The machine's own number, hashed with a salt of ours: it is a secret, and no other program's hash is the same."""
    number = _text("/etc/machine-id").strip()
    return hashlib.sha256(f"ioflame host {number}".encode()).hexdigest()[:16] if number else "unknown"


def _mitigations() -> str:
    found = sorted(Path(f"{_CPU}/vulnerabilities").glob("*"))
    mitigations = {path.name: _text(str(path)).strip() for path in found}
    return "; ".join(f"{name}: {value}" for name, value in mitigations.items() if value != "Not affected") or "unknown"


def _chosen(path: str) -> str:
    """The word in brackets of `always [madvise] never`; all of the text where nothing is in brackets."""
    text = _text(path).strip()
    chosen = re.search(r"\[(\S+)\]", text)
    return chosen[1] if chosen else text or "unknown"


def describe_host(facts: dict[str, str]) -> str:
    """`2 x Intel(R) Xeon(R) Processor (VM), Linux 6.18.44, Debian GNU/Linux 12`."""
    virtual = " (VM)" if facts.get("hypervisor") == "yes" else ""
    # A record of somebody else's may lack any of them.
    cpus, cpu, kernel, system = (facts.get(name, "?") for name in ("cpus", "cpu", "kernel", "distribution"))
    return f"{cpus} x {cpu}{virtual}, Linux {kernel}, {system}"


def _nominal_ghz(cpuinfo: str) -> str:
    """The clock without boost: the kernel's base frequency, else what the model's name says; "" where neither does."""
    base = _text("/sys/devices/system/cpu/cpu0/cpufreq/base_frequency").strip()  # kHz; intel_pstate has it
    if base.isdigit():
        return f"{int(base) / 1e6:.2f}"
    named = re.search(r"@ ([\d.]+)GHz", _field(cpuinfo, "model name") or "")
    return named[1] if named else ""


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _field(text: str, name: str) -> str | None:
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and key.strip() == name:
            return value.strip()
    return None


def _distribution() -> str:
    for line in _text("/etc/os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return "unknown"
