"""The instruments, one file each: perf, the eBPF programs, the poor man's profiler. A new one is found by its file.

They are imported by whoever first asks for all of them: a command that shows a part of a run needs one, or none.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ioflame.instruments.instrument import Instrument

    # By name, in the order of their windows.
    INSTRUMENTS: Mapping[str, Instrument]
    # Of what we did not set up: what neither stops threads nor sits in the target's own code.
    BY_DEFAULT: tuple[str, ...]


@functools.cache
def _found() -> Mapping[str, Instrument]:
    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    instruments = [module.INSTRUMENT for module in modules if hasattr(module, "INSTRUMENT")]
    return {one.name: one for one in sorted(instruments, key=lambda one: one.place)}


def instrument_named(name: str) -> Instrument | None:
    """None where there is none; no other is imported for it."""
    if not name.isidentifier() or importlib.util.find_spec(f"{__name__}.{name}") is None:
        return None
    found: Instrument | None = getattr(importlib.import_module(f"{__name__}.{name}"), "INSTRUMENT", None)
    return found


def __getattr__(name: str) -> object:
    if name == "INSTRUMENTS":
        return _found()
    if name == "BY_DEFAULT":
        return tuple(name for name, one in _found().items() if one.by_default)
    raise AttributeError(name)
