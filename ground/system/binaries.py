"""Where the house's own binaries lie."""

from __future__ import annotations

import os
from pathlib import Path

from ground.errors import HostError

# In a wheel beside this file; in a checkout where cargo puts them.
_PLACES = (Path(__file__).with_name("bin"), Path(__file__).parents[2] / "target" / "release")


def built_binary(crate: str) -> Path:
    """The binary of one of our crates, of the wheel or as `make setup` builds it. HostError when it is not there."""
    for place in _PLACES:
        if os.access(place / crate, os.X_OK):
            return place / crate
    raise HostError(f"{_PLACES[-1] / crate} is not built", mend=f"make setup   (or: cargo build --release -p {crate})")
