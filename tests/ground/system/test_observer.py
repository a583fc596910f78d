from __future__ import annotations

from collections.abc import Callable

import pytest

from ground.errors import MeasurementError
from ground.system.observer import NullObserver, attached
from ground.text.progress import Reporter
from tests.until import until


class Failing(NullObserver):
    """An observer that fails when it is ended early, as a tracer that has got no orders."""

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


class Slow(NullObserver):
    """Attaches and ends only once somebody has said that this is waited for."""

    def __init__(self, said: Callable[[], str]) -> None:
        self._said = said

    def _wait_for(self, words: str) -> None:
        until(lambda: words in self._said())

    def attach(self) -> None:
        self._wait_for("waiting for null to attach")

    def detach(self) -> None:
        self._wait_for("waiting for null to end")


def test_what_is_waited_for_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ground.text.progress._PATIENCE_SECONDS", 0.05)
    with attached(Slow(lambda: capsys.readouterr().err), Reporter()):
        pass


def test_what_is_soon_over_is_not_spoken_of(capsys: pytest.CaptureFixture[str]) -> None:
    with attached(NullObserver(), Reporter()):
        pass
    assert capsys.readouterr().err == ""
