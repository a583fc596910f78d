"""Numbers as result files may hold them: what cannot be is refused where a file is read, as another type is.

Every number of a result file has a range, or a type below whose description says why it has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

# Of things, bytes, ns: no counter of a kernel holds more.
Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
# -1: there is none.
OrNone = Annotated[int, msgspec.Meta(ge=-1, le=(1 << 63) - 1)]
Amount = Annotated[float, msgspec.Meta(ge=0)]
Divisor = Annotated[float, msgspec.Meta(gt=0)]
# Of a whole, as it was chosen; one that is computed may be above 1 by its rounding, and is an Amount.
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]

Signed = Annotated[float, msgspec.Meta(description="a difference or a logarithm: of either sign")]
Drift = Annotated[int, msgspec.Meta(description="a counter of the kernel that may run backwards")]
Stated = Annotated[
    float, msgspec.Meta(description="as an engine states it, or a figure of METRICS: some are differences")
]
Place = Annotated[int, msgspec.Meta(description="a place in a list of the file: its reader checks it")]
Clock = Annotated[int, msgspec.Meta(description="on a clock that may begin anywhere")]


# From when to when, CLOCK_MONOTONIC in ns.
Turn = tuple[Count, Count]


class Windowed:
    """Of a dataclass with the edges of a window, `start_ns` and `end_ns` (CLOCK_MONOTONIC): they are in order. msgspec
    says which value of a file a ValueError is of.

    turns: where it was watched in turns, each of them; the window is then from the first to the last
    """

    start_ns: Count
    end_ns: Count

    def __post_init__(self) -> None:
        if self.end_ns < self.start_ns:
            raise ValueError(f"it ends {self.start_ns - self.end_ns:,} ns before it begins")

    @property
    def seconds(self) -> float:
        """That were watched."""
        turns: Sequence[Turn] = getattr(self, "turns", ()) or [(self.start_ns, self.end_ns)]
        return sum(end - start for start, end in turns) / 1e9


class Ends:
    """Of a dataclass with `low` and `high`: they are in order. What they are of need not be within: a bootstrap of few
    skewed values may leave its estimate out."""

    def __post_init__(self) -> None:
        low, high = self.low, self.high  # type: ignore[attr-defined]
        if low is not None and high is not None and high < low:
            raise ValueError(f"its interval is from {low:g} to {high:g}")
