"""The instruments, one file each: perf, the eBPF programs, the poor man's profiler. A new one is found by its file."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from ioflame.instruments.instrument import Instrument


def _found() -> Mapping[str, Instrument]:
    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    instruments = [module.INSTRUMENT for module in modules if hasattr(module, "INSTRUMENT")]
    return {one.name: one for one in sorted(instruments, key=lambda one: one.place)}


# By name, in the order of their windows.
INSTRUMENTS = _found()
# Of what we did not set up: what neither stops threads nor sits in the target's own code.
BY_DEFAULT = tuple(name for name, one in INSTRUMENTS.items() if one.by_default)
