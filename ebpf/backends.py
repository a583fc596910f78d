"""The ways an eBPF program can be run here, each known to work by having been tried."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence

from ebpf.bpftrace import try_bpftrace
from ebpf.iolat_bcc import try_bcc
from ebpf.observer import loader_binary
from ebpf.trial import Trial
from ground.errors import HostError, IoflameError, UsageError
from ground.system.process import capture

__all__ = ("BACKENDS", "choose_backend", "try_backend", "try_kinds")


@functools.cache
def try_kinds() -> Mapping[str, Trial]:
    """Each kind of program (`tp_btf`, `tracepoint`, `fentry`, `kprobe`, `uprobe`), loaded, attached and made to count.

    Empty where the loader is not built or does not run.
    """
    binary = loader_binary()
    if binary is None:
        return {}
    try:
        tried = json.loads(capture([str(binary), "probe"], timeout=60).require("ioflame-ebpf probe").stdout)
        return {one["kind"]: Trial(bool(one["works"]), str(one["words"])) for one in tried}
    except (IoflameError, ValueError, KeyError):
        return {}


def try_backend(name: str) -> Trial:
    """A real program of that backend, attached and made to count; never by its version or its own claims."""
    return _TRIALS[name]()


def choose_backend(wanted: str, names: Sequence[str] | None = None) -> str:
    """The backend to use: the one asked for; with `auto` the first that works. HostError with the reasons if none.

    names: those that can do it, in the order of preference (None: all)
    """
    names = BACKENDS if names is None else names
    if wanted not in ("auto", *names):
        means = ""
        if "python" in wanted:
            means = "bcc's Python tools compile against kernel headers; with those of another kernel they count garbage"
        elif wanted in BACKENDS:
            means = f"{wanted} has no program for it"
        raise UsageError(f"EBPF={wanted} is not known", means=means, mend=f"EBPF=auto|{'|'.join(names)}")
    reasons, mends = [], []
    for name in names if wanted == "auto" else (wanted,):
        trial = try_backend(name)
        if trial.works:
            return name
        reasons.append(f"{name}: {trial.words}")
        mends += [trial.mend] if trial.mend else []
    mend = "   or: ".join([*mends, "ioflame doctor"])
    raise HostError("no eBPF program for this can be run here", means="; ".join(reasons), mend=mend)


@functools.cache
def _try_core() -> Trial:
    if loader_binary() is None:
        return Trial(False, "its loader ioflame-ebpf is not built", "make setup   (needs clang and libelf-dev)")
    kinds = try_kinds()
    tried = kinds.get("tp_btf", Trial(False, "its loader does not run"))
    if tried.works:
        working = ", ".join(name for name, trial in kinds.items() if trial.works)
        return Trial(True, f"{working} load, attach and count")
    return Trial(False, tried.words)


_TRIALS: Mapping[str, Callable[[], Trial]] = {"co-re": _try_core, "bpftrace": try_bpftrace, "bcc": try_bcc}

# In the order of preference.
BACKENDS = tuple(_TRIALS)
