"""The instruments, one file each: perf, the eBPF programs, the poor man's profiler. A new one is found by its file.

They are imported by whoever first asks for all of them: a command that shows a part of a run needs one, or none.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ioflame.instruments.instrument import Instrument


class _Instruments(Mapping[str, "Instrument"]):
    """By name, in the order of their windows."""

    @functools.cached_property
    def _by_name(self) -> Mapping[str, Instrument]:
        modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
        instruments = [module.INSTRUMENT for module in modules if hasattr(module, "INSTRUMENT")]
        return {one.name: one for one in sorted(instruments, key=lambda one: one.order)}

    def __getitem__(self, name: str) -> Instrument:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)


INSTRUMENTS = _Instruments()


def by_default() -> tuple[str, ...]:
    """Of what we did not set up: what neither stops threads nor sits in the target's own code."""
    return tuple(name for name, one in INSTRUMENTS.items() if one.by_default)


def instrument_named(name: str) -> Instrument | None:
    """None where there is none; no other is imported for it."""
    if not name.isidentifier() or importlib.util.find_spec(f"{__name__}.{name}") is None:
        return None
    found: Instrument | None = getattr(importlib.import_module(f"{__name__}.{name}"), "INSTRUMENT", None)
    return found
