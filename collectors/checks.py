"""What perf needs of the host, and what the host does to the numbers."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from collectors.counters import device_of
from collectors.perf import Plan, perf_version
from ground.errors import HostError
from ground.results.checks import Check, Verdict
from ground.settings import Setting
from ground.system.elf import build_id, debug_file, sections

_CPU = Path("/sys/devices/system/cpu")
_FIRST_SYMBOLS = 100
_LIBC = re.compile(r"\s(/\S*/(?:libc\.so\.6|libc-[\d.]+\.so|ld-musl-\S+))$", re.MULTILINE)
# A full table of symbols, or a packed one (Fedora, RHEL).
_TABLES = (".symtab", ".gnu_debugdata")


def _read(path: str | Path) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return None


def perf_checks(plan: Plan) -> Iterator[Check]:
    """perf, the event that really counts, and the sysctls that decide what it may see."""
    yield Check("perf", Verdict.OK, perf_version())
    timer = plan.event.startswith(("cpu-clock", "task-clock"))
    yield Check(
        "event",
        Verdict.NOTE if timer else Verdict.OK,
        f"{plan.event}, {'system-wide' if plan.scope == 'system' else 'of the process'}",
        "; ".join(plan.why),
        "a machine with a PMU (bare metal, or a VM that passes it through)" if timer else "",
    )
    paranoid = _read("/proc/sys/kernel/perf_event_paranoid") or "unreadable"
    if not plan.event.endswith(":u"):
        yield Check("perf_event_paranoid", Verdict.OK, paranoid, "this user may sample the kernel")
    else:
        yield Check(
            "perf_event_paranoid",
            Verdict.WARN,
            paranoid,
            "this user may not sample the kernel: libc+k holds libc alone",
            "sudo sysctl kernel.perf_event_paranoid=1",
        )
    yield _kptr_check()


def _kptr_check() -> Check:
    value = _read("/proc/sys/kernel/kptr_restrict") or "unreadable"
    try:
        with Path("/proc/kallsyms").open(encoding="utf-8") as symbols:
            # The first of some kernels (before Linux 6.15) are places within a CPU's own data, at 0.
            shown = any(line.split()[0].strip("0") for line in islice(symbols, _FIRST_SYMBOLS))
    except OSError:
        shown = False
    if shown:
        return Check("kptr_restrict", Verdict.OK, value, "kernel symbols are readable")
    # With 0 they are still hidden from an ordinary user while perf_event_paranoid is above 1.
    return Check(
        "kptr_restrict",
        Verdict.WARN,
        value,
        "kernel addresses are hidden from this user: kernel frames would be [unknown]",
        f"sudo sysctl kernel.{'perf_event_paranoid=1' if value == '0' else 'kptr_restrict=0'}",
    )


def host_checks() -> Iterator[Check]:
    """CPU governor and boost: what makes two runs on this host differ."""
    yield _setting("CPU governor", _CPU / "cpu0/cpufreq/scaling_governor", "performance", "frequency follows the load")
    boost = _read(_CPU / "cpufreq/boost")
    no_turbo = _read(_CPU / "intel_pstate/no_turbo")
    if boost is None and no_turbo is None:
        yield Check("CPU boost", Verdict.NOTE, "not stated by this kernel", "clock speed may vary from run to run")
    elif boost == "1" or no_turbo == "0":
        mend = "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost"
        if no_turbo is not None:
            mend = "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"
        yield Check("CPU boost", Verdict.WARN, "on", "clock speed depends on heat and on the other cores", mend)
    else:
        yield Check("CPU boost", Verdict.OK, "off")


def queue_checks(directory: Path) -> Iterator[Check]:
    """The queues of the disk that holds `directory`; nothing where no block device does."""
    with contextlib.suppress(HostError, OSError):
        device = device_of(directory)
        check = queue_check(Path(f"/sys/dev/block/{device.major}:{device.minor}").resolve())
        if check is not None:
            yield check


def queue_check(block_device: Path) -> Check | None:
    """Whether each CPU has a hardware queue of its own. None for a device without any (dm, md).

    block_device: its directory in sysfs, a partition's or a disk's; `mq/N/cpu_list` has the CPUs that share queue N.
    """
    disk = block_device.parent if (block_device / "partition").exists() else block_device
    queues = [(queue / "cpu_list").read_text(encoding="utf-8").split(",") for queue in sorted((disk / "mq").glob("*"))]
    cpus = sum(map(len, queues))
    if not cpus:
        return None
    value = f"{len(queues)} for {cpus} CPU{'s' * (cpus != 1)} ({disk.name})"
    if len(queues) >= cpus:
        return Check("disk queues", Verdict.OK, value)
    return Check(
        "disk queues",
        Verdict.NOTE,
        value,
        "completions arrive on one CPU; threads elsewhere need a cross-CPU wake-up: QPS depends on where threads run",
        Setting.CPUS.where_known(f"{Setting.CPUS.to('<one of them>')}, the fastest, for runs that are to be compared"),
    )


def _setting(name: str, path: Path, wanted: str, otherwise: str) -> Check:
    value = _read(path)
    if value is None:
        return Check(name, Verdict.NOTE, "not stated by this kernel", "usual in a VM: the hypervisor decides")
    if value == wanted:
        return Check(name, Verdict.OK, value)
    return Check(name, Verdict.WARN, value, otherwise, f"sudo cpupower frequency-set -g {wanted}")


def own_libc() -> str:
    """The C library of this process; empty where it has none."""
    found = _LIBC.search(Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace"))
    return found[1] if found else ""


def libc_names_check(library: str) -> Check:
    if not library:
        return Check("names of libc", Verdict.NOTE, "not known", "this process has no C library")
    content = Path(library).read_bytes()
    tables = [section.name for section in sections(content) if section.name in _TABLES]
    if tables:
        return Check("names of libc", Verdict.OK, f"{library} has them ({tables[0]})")
    number = build_id(content)
    if (debug := debug_file(number)) is not None:
        return Check("names of libc", Verdict.OK, str(debug))
    by_apt = "sudo apt-get install libc6-dbg"
    by_hand = f"debuginfod-find debuginfo {number}   (with DEBUGINFOD_URLS of your distribution)"
    return Check(
        "names of libc",
        Verdict.NOTE,
        f"{library} has only those that it exports",
        "its other frames are [libc.so.6]: by leaf, the inside of malloc and the copies have no rows of their own; "
        "categories by owner and whether stacks are whole do not depend on it",
        by_apt if shutil.which("apt-get") else by_hand,
    )
