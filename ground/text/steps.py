"""The steps of a run that takes minutes: which one runs now, and how long all of them will take yet."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass
class Steps:
    """planned: the name of each step and the seconds that it should take, in their order; several may have one name

    place: of the step that runs, from 1; 0 before the first
    """

    planned: list[tuple[str, float]]
    place: int = 0
    _begun: float = field(default=0.0, init=False)
    _seconds: float = field(default=0.0, init=False)

    def begin(self, name: str, seconds: float | None = None) -> bool:
        """The next step of that name begins; those before it are left out. False where none of that name is ahead.

        seconds: that it will take, where more is known of it by now
        """
        ahead = [known for known, _ in self.planned[self.place :]]
        if name not in ahead:
            return False
        self.place += ahead.index(name) + 1
        self.expect(self.planned[self.place - 1][1] if seconds is None else seconds)
        return True

    def expect(self, seconds: float) -> None:
        """The step that runs takes so long from now on."""
        self._begun, self._seconds = time.monotonic(), seconds

    @property
    def left(self) -> float:
        """Seconds until the end of the last one; a step that takes longer than it should is taken to end now."""
        current = max(self._seconds - (time.monotonic() - self._begun), 0.0)
        return current + sum(seconds for _, seconds in self.planned[self.place :])

    def __str__(self) -> str:
        left = max(round(self.left), 1)
        words = f"{left} s" if left < 120 else f"{round(left / 60)} min"
        return f"step {self.place} of {len(self.planned)}, {words} left"
