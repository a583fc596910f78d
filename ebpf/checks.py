"""Which eBPF instruments this host lets us run: tried, never inferred from a version or a tool's own claims."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ebpf.backends import BACKENDS, NAMES, Instrument, try_backend, try_instruments
from ground.results.checks import Check, Verdict

_OPTIONAL = {
    "bcc": "no second measurement by bcc; nothing else needs it",
    "bpftrace": "no second measurement by bpftrace, and nothing to fall back on",
}


def ebpf_checks() -> Iterator[Check]:
    """BTF, each instrument by loading its programs, and each other backend by a program that must count something."""
    btf = Path("/sys/kernel/btf/vmlinux")
    if btf.exists():
        yield Check("BTF", Verdict.OK, str(btf))
    else:
        yield Check(
            "BTF", Verdict.WARN, "none", "CO-RE programs cannot be loaded", "a kernel with CONFIG_DEBUG_INFO_BTF"
        )
    yield from instrument_checks()
    for name in BACKENDS[1:]:
        trial = try_backend(name)
        verdict = Verdict.OK if trial.works else Verdict.NOTE
        means = "" if trial.works else _OPTIONAL[name]
        yield Check(f"eBPF by {name}", verdict, trial.words, means, "" if trial.works else trial.mend)


def instrument_checks() -> Iterator[Check]:
    """Each instrument of `ioflame ebpf`, by loading its programs into this kernel."""
    found = try_instruments()
    if not found:
        trial = try_backend("co-re")
        yield Check(
            "eBPF by co-re", Verdict.WARN, trial.words, "no latency of storage, no account of waits", trial.mend
        )
    for name, one in found.items():
        yield _check(NAMES.get(name, name), one)


def _check(name: str, one: Instrument) -> Check:
    if not one.works:
        means = f"it was tried from Linux {one.booted} on; in its place:"
        return Check(f"eBPF {name}", Verdict.WARN, one.words, means, one.instead)
    if not one.bios:
        return Check(f"eBPF {name}", Verdict.NOTE, one.words, "not of device mapper and md", one.instead)
    return Check(f"eBPF {name}", Verdict.OK, one.words)
