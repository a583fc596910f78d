"""Where the house's own binaries lie."""

from __future__ import annotations

import os
from pathlib import Path

from ioflame.errors import HostError

__all__ = ("built_binary",)

_BUILT = Path(__file__).parents[1] / "target" / "release"


def built_binary(crate: str) -> Path:
    """The binary of one of our crates, as `make setup` builds it. HostError when it is not there."""
    binary = _BUILT / crate
    if not os.access(binary, os.X_OK):
        raise HostError(f"{binary} is not built", mend=f"make setup   (or: cargo build --release -p {crate})")
    return binary
