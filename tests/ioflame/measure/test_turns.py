"""Rounds: who has its turn when, and what one that fails or a target that ends changes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from collectors.counters import Snapshot
from collectors.perf import Plan, Recording
from collectors.windows import Windows
from ground.errors import IoflameError, MeasurementError
from ground.results.files import Files
from ground.results.run import Run
from ground.system.observer import NullObserver, Observer
from ground.system.process import Children
from ground.text.progress import Reporter
from ioflame.measure.first_look import first_look
from ioflame.measure.turns import Rounds, Turns
from tests.records import run_record


class Noted(Windows):
    """Windows that note whose turn it is, and take no time."""

    def __init__(self) -> None:
        super().__init__(Reporter(quiet=True))
        self.kinds: list[tuple[str, float, int]] = []

    def _window(self, kind: str, seconds: float, number: int = 0, *, at_counts: bool = True) -> None:
        assert at_counts
        self.kinds.append((kind, seconds, number))

    def _step(self, at_most: float) -> bool:
        raise NotImplementedError

    def _snapshot(self) -> Snapshot:
        raise NotImplementedError

    def _finished_at(self, moment_ns: int) -> float | None:
        raise NotImplementedError

    def _roles_in(self, snapshot: Snapshot) -> Mapping[int, str]:
        raise NotImplementedError


class Watcher(NullObserver):
    def __init__(self, kind: str, fails_at: int = 0) -> None:
        self.kind = kind
        self.does: list[str] = []
        self._fails_at = fails_at

    def attach(self) -> None:
        self.does.append("attach")

    def open(self) -> None:
        self.does.append("open")
        if self.does.count("open") == self._fails_at:
            raise MeasurementError("it cannot any more")

    def close(self) -> None:
        self.does.append("close")

    def detach(self) -> None:
        self.does.append("detach")


def watched(
    *observers: Observer,
    rounds: Rounds,
    seed: int = 7,
    windows: Noted | None = None,
    **first: Callable[[Observer], None],
) -> tuple[Noted, list[tuple[str, str]]]:
    windows, failed = windows or Noted(), list[tuple[str, str]]()

    def note(kind: str, error: IoflameError) -> None:
        failed.append((kind, error.what))

    turns = Turns(note, Reporter(quiet=True), first=first)
    for observer in observers:
        assert turns.attach(observer.kind, lambda observer=observer: observer)  # type: ignore[misc]
    turns.run(windows, rounds, seed, lambda done: done < rounds.number)
    turns.detach()
    return windows, failed


def test_each_round_has_a_turn_of_each_and_a_plain_one_before_and_after() -> None:
    rounds = Rounds(4, 1.0, {"b": 3})
    windows, failed = watched(one := Watcher("a"), Watcher("b"), Watcher("c"), rounds=rounds)
    kinds = [kind for kind, _, _ in windows.kinds]
    assert kinds[::2] == ["plain"] * 13 and failed == []
    orders = [tuple(kinds[at : at + 6 : 2]) for at in range(1, 24, 6)]
    assert all(sorted(order) == ["a", "b", "c"] for order in orders) and len(set(orders)) > 1
    assert orders == [tuple(kinds[at : at + 6 : 2]) for at in range(1, 24, 6)]
    assert {(kind, seconds) for kind, seconds, _ in windows.kinds} == {("plain", 1), ("a", 1), ("b", 3), ("c", 1)}
    assert sum(seconds for _, seconds, _ in windows.kinds) == rounds.lasting("abc")
    assert [number for _, _, number in windows.kinds] == [number for number in range(1, 5) for _ in range(6)] + [4]
    assert one.does == ["attach", *["open", "close"] * 4, "detach"]
    again, _ = watched(Watcher("a"), Watcher("b"), Watcher("c"), rounds=rounds)
    assert again.kinds == windows.kinds, "the seed decides"


def test_one_that_fails_has_no_more_turns_and_the_others_go_on() -> None:
    lost = Watcher("lost", fails_at=2)
    windows, failed = watched(lost, kept := Watcher("kept"), rounds=Rounds(3, 1.0))
    assert failed == [("lost", "it cannot any more")] and lost.does[-1] == "detach"
    assert [kind for kind, _, _ in windows.kinds].count("lost") == 1
    assert kept.does == ["attach", *["open", "close"] * 3, "detach"]


def test_what_follows_a_first_turn_is_in_no_window_and_the_next_begins_at_a_count() -> None:
    class Counts(Noted):
        def _await_count(self) -> None:
            self.kinds.append(("count", 0, 0))

    windows, seen = Counts(), list[Observer]()

    def look(observer: Observer) -> None:
        seen.append(observer)
        windows.kinds.append(("look", 0, 0))

    watched(one := Watcher("a"), rounds=Rounds(2, 1.0), windows=windows, a=look)
    assert seen == [one] and one.does == ["attach", *["open", "close"] * 2, "detach"]
    assert [kind for kind, _, _ in windows.kinds] == ["count", "plain", "a", "look", "count", "plain", "a", "plain"]
    # There is nothing to look at where it failed.
    watched(Watcher("a", fails_at=1), rounds=Rounds(2, 1.0), windows=windows, a=look)
    assert seen == [one]


@pytest.mark.parametrize(
    ("error", "size", "said"),
    [
        (MeasurementError("perf did not disable"), 9, "perf did not disable"),
        (OSError(28, "No space left on device"), 9, "[Errno 28] No space left on device"),
        (None, 1 << 30, "perf has recorded 1.0 GiB, which would take long to fold"),
    ],
)
def test_a_first_look_that_fails_is_a_warning_and_the_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], error: Exception | None, size: int, said: str
) -> None:
    class Fails(Recording):
        def copy_so_far(self, out: Path) -> None:  # noqa: ARG002
            assert error is not None
            raise error

    run = Run.create(tmp_path, run_record())
    with run.path(Files.PERF_DATA).open("wb") as recording:
        recording.truncate(size)
    perf = Fails(
        Children(), Plan("cpu-clock", 99, "process", "fp", ()), [1], run.path(Files.PERF_DATA), tmp_path / "log"
    )
    first_look(run, perf, Reporter())
    assert capsys.readouterr().err == f"warning: no first look: {said}\n"
    assert not run.path(Files.REPORT).exists() and run.record == run_record()


def test_one_that_cannot_be_made_is_reported_and_one_without_turns_is_left() -> None:
    failed = []
    turns = Turns(lambda kind, _: failed.append(kind), Reporter(quiet=True))

    def refuse() -> Observer:
        raise MeasurementError("not here")

    assert turns.attach("refused", refuse) and failed == ["refused"]
    once = Watcher("once")
    once.takes_turns = False
    assert not turns.attach("once", lambda: once) and once.does == [] and turns.observers == {}


def test_rounds_end_with_what_is_watched_or_who_watches() -> None:
    windows = Noted()
    turns = Turns(lambda *_: None, Reporter(quiet=True), lambda: len(windows.kinds) >= 5)
    turns.attach("a", lambda: Watcher("a"))
    turns.run(windows, Rounds(9, 1.0), 1, lambda _: True)
    assert [kind for kind, _, _ in windows.kinds] == ["plain", "a", "plain", "a", "plain"]
    windows, _ = watched(Watcher("a", fails_at=1), rounds=Rounds(5, 1.0))
    assert [kind for kind, _, _ in windows.kinds] == ["plain", "plain"]


@pytest.mark.parametrize(("duration", "rounds"), [(1, Rounds(1, 1.0)), (5, Rounds(5, 1.0)), (90, Rounds(45, 2.0))])
def test_turns_add_up_to_what_was_asked_for(duration: int, rounds: Rounds) -> None:
    assert Rounds.adding_up_to(duration) == rounds
