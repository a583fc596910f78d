from __future__ import annotations

import pytest

from ioflame.errors import MeasurementError
from ioflame.observer import NullObserver, attached
from ioflame.progress import Reporter


class Failing(NullObserver):
    """An observer that can't end well when it is ended early, as a tracer that was told nothing."""

    def __init__(self) -> None:
        self.detached = 0

    def detach(self) -> None:
        self.detached += 1
        raise MeasurementError("the tracer failed")


def test_what_went_wrong_first_is_what_is_raised() -> None:
    failing = Failing()
    with pytest.raises(KeyboardInterrupt), attached(failing, Reporter(quiet=True)):
        raise KeyboardInterrupt
    assert failing.detached == 1


def test_what_fails_at_the_end_is_raised() -> None:
    failing = Failing()
    with pytest.raises(MeasurementError, match="the tracer failed"), attached(failing, Reporter(quiet=True)):
        pass
    assert failing.detached == 1
