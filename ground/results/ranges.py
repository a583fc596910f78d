"""Numbers as result files may hold them: what cannot be is refused where a file is read, as another type is."""

from __future__ import annotations

from typing import Annotated

import msgspec

__all__ = ("Amount", "Count", "in_order")

# Of things, bytes, ns: no counter of a kernel holds more.
Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
Amount = Annotated[float, msgspec.Meta(ge=0)]


def in_order(start_ns: int, end_ns: int) -> None:
    """For `__post_init__` of what has both: msgspec says which value of a file a ValueError is of."""
    if end_ns < start_ns:
        raise ValueError(f"it ends {start_ns - end_ns:,} ns before it begins")
