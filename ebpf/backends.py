"""The ways an eBPF instrument can be run here, each known to work by having been tried."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass

from ebpf.bpftrace import try_bpftrace
from ebpf.iolat_bcc import try_bcc
from ebpf.observer import loader_binary
from ebpf.trial import Trial
from ground.errors import HostError, IoflameError, UsageError
from ground.system.process import capture

# In the order of preference.
BACKENDS = ("co-re", "bpftrace", "bcc")

# As `ioflame ebpf` calls what the loader calls otherwise.
NAMES = {"records": "tail"}
_DEVICE_MAPPER = "bios"


@dataclass(frozen=True)
class Instrument:
    """What this kernel makes of the programs of one instrument, which were loaded.

    works:    one of its ways does
    words:    the way it is served by, or what this kernel lacks
    bios:     whether devices without requests (device mapper, md) can be watched; True where that is no question
    booted:   the oldest release of Linux that it was tried on
    instead:  the command to use where it does not work
    """

    name: str
    works: bool
    words: str
    bios: bool
    booted: str
    instead: str


@functools.cache
def try_instruments(*names: str) -> dict[str, Instrument]:
    """Each instrument of the loader by its name there, or those that are named; {} where the loader does not run."""
    binary = loader_binary()
    if binary is None:
        return {}
    try:
        printed = capture([str(binary), "needs", *names], timeout=120).require("ioflame-ebpf needs").stdout
        found: dict[str, list[dict[str, object]]] = {}
        for one in json.loads(printed):
            found.setdefault(str(one["instrument"]), []).append(one)
        return {name: _instrument(name, ways) for name, ways in found.items()}
    except (IoflameError, ValueError, KeyError):
        return {}


def _instrument(name: str, ways: Sequence[dict[str, object]]) -> Instrument:
    by_way = {str(one["way"]): one for one in ways}
    bios = by_way.pop(_DEVICE_MAPPER, None)
    served = next((way for way, one in by_way.items() if one["works"]), None)
    # Of the last way, which the oldest kernels are served by.
    last = list(by_way.values())[-1]
    loaded = "a function of ours was watched" if name == "uprobes" else "its programs load"
    words = str(last["words"]) if served is None else f"{loaded}{f' (by {served})' if served else ''}"
    can_bios = bios is None or bool(bios["works"])
    return Instrument(name, served is not None, words, can_bios, str(last["booted"]), str(last["instead"]))


def try_backend(name: str, instrument: str = "iolat") -> Trial:
    """A real program of that backend, tried; never by its version or its own claims.

    instrument: by co-re, the one whose programs are loaded
    """
    if name == "co-re":
        return _try_core(instrument)
    return try_bpftrace() if name == "bpftrace" else try_bcc()


def choose_backend(wanted: str, instrument: str, names: Sequence[str] = ("co-re",)) -> str:
    """The backend to use: the one asked for; with `auto` the first that works. HostError with the reasons if none.

    instrument: as the loader calls it
    names:      those that can do it, in the order of preference
    """
    if wanted not in ("auto", *names):
        means = ""
        if "python" in wanted:
            means = "bcc's Python tools compile against kernel headers; with those of another kernel they count garbage"
        elif wanted in BACKENDS:
            means = f"{wanted} has no program for it"
        raise UsageError(f"EBPF={wanted} is not known", means=means, mend=f"EBPF=auto|{'|'.join(names)}")
    reasons, mends = [], []
    for name in names if wanted == "auto" else (wanted,):
        trial = try_backend(name, instrument)
        if trial.works:
            return name
        reasons.append(f"{name}: {trial.words}")
        mends += [trial.mend] if trial.mend else []
    mend = "   or: ".join([*dict.fromkeys(mends), "ioflame doctor"])
    what = f"no eBPF program for {NAMES.get(instrument, instrument)} can be run here"
    raise HostError(what, means="; ".join(reasons), mend=mend)


def _try_core(instrument: str) -> Trial:
    if loader_binary() is None:
        return Trial(False, "its loader ioflame-ebpf is not built", "make setup   (needs clang and libelf-dev)")
    found = try_instruments(instrument).get(instrument)
    if found is None:
        return Trial(False, "its loader does not run")
    return Trial(found.works, found.words, "" if found.works else found.instead)
