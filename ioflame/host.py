"""The machine a run was made on, as facts for `run.json` and for the line under a figure."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

__all__ = ("describe_host", "host_facts")


def host_facts() -> dict[str, str]:
    """CPU model, count and nominal clock, memory, kernel, distribution, governor, VM; `unknown` if not stated."""
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
    }


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
