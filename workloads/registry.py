"""The engines we know, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ioflame.errors import UsageError
from workloads.engine import Engine
from workloads.rocksdb import RocksDB

__all__ = ("engine_named", "engine_names")

_ENGINES = {"rocksdb": RocksDB}


def engine_names() -> tuple[str, ...]:
    return tuple(_ENGINES)


def engine_named(name: str, own: Mapping[str, Any] | None = None) -> Engine:
    """The engine called `name`, with steps, workloads and configurations of the user's own where they are given.

    UsageError with the known names otherwise.
    """
    if name not in _ENGINES:
        raise UsageError(
            f"ENGINE={name} is not known", means="nothing was started", mend=f"ENGINE={'|'.join(_ENGINES)}"
        )
    return _ENGINES[name](own)
