"""Which eBPF backends this host lets us run: tried, never inferred from a version or a tool's own claims."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ebpf.backends import BACKENDS, try_backend, try_kinds
from ground.results.checks import Check, Verdict

__all__ = ("ebpf_checks",)

_LATER = "latency histograms need one of the backends; a CPU profile does not"
_OPTIONAL = {"bcc": "no second measurement by bcc; nothing else needs it"}


def ebpf_checks() -> Iterator[Check]:
    """BTF, and each backend by a program that must really attach and count something."""
    btf = Path("/sys/kernel/btf/vmlinux")
    if btf.exists():
        yield Check("BTF", Verdict.OK, str(btf))
    else:
        yield Check(
            "BTF", Verdict.WARN, "none", "CO-RE programs cannot be loaded", "a kernel with CONFIG_DEBUG_INFO_BTF"
        )
    trials = {name: try_backend(name) for name in BACKENDS}
    any_works = any(trial.works for trial in trials.values())
    for name, trial in trials.items():
        if trial.works:
            yield Check(f"eBPF by {name}", Verdict.OK, trial.words)
        else:
            verdict = Verdict.NOTE if any_works else Verdict.WARN
            means = _OPTIONAL.get(name, "another backend is used" if any_works else _LATER)
            yield Check(f"eBPF by {name}", verdict, trial.words, means, trial.mend)
    kinds = try_kinds()
    if kinds and not kinds["uprobe"].works:
        yield Check(
            "uprobes",
            Verdict.WARN,
            kinds["uprobe"].words,
            "the latency ladder begins at the system call",
            "run as root",
        )
