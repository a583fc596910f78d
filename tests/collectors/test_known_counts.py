"""What a client's reports say of any moment: how sure it is, and that windows begin and end with them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from collectors.attached import AttachedWindows
from collectors.counts import Count
from collectors.known_counts import KnownCounts, rate_of_all
from collectors.target_counters import TargetProbe
from ground.system.observer import NullObserver
from ground.system.target import Target
from ground.text.progress import Reporter

SECOND = 1_000_000_000


def known(*values: float) -> KnownCounts:
    """A report a second."""
    return KnownCounts([at * SECOND for at in range(len(values))], list(values))


def test_between_two_reports_a_count_is_as_sure_as_rates_are_alike() -> None:
    """By hand: rates 100, 300, 100 a second: (200^2 + 200^2) / 2 / 2 = 20,000 a second; half way a quarter of it."""
    count = known(0, 100, 400, 500)
    assert count.at(SECOND * 3 // 2) == 250
    assert count.off(SECOND * 3 // 2) == pytest.approx(math.sqrt(20_000 / 4))
    assert [count.off(at * SECOND) for at in range(4)] == [0] * 4, "where it is known"
    assert known(0, 100, 200, 300).off(SECOND // 2) == 0
    # With two rates nobody knows how they vary: any up to twice as much, of which a uniform one has this deviation.
    assert known(0, 100, 200).off(SECOND // 2) == pytest.approx(50 / math.sqrt(3))


def test_what_a_client_did_in_all_is_bounded_by_what_nobody_reported() -> None:
    """By hand: 300 in 3 s, 150 in the fastest of them; seen to run until 3.9 s, and to have ended at 4 s."""
    found = rate_of_all(known(0, 100, 250, 300), 0, 3_900_000_000, 4 * SECOND)
    assert found is not None and (found.estimate, found.low, found.n) == (100, 300 / 4, 3)
    assert found.high == pytest.approx((300 + 2 * 150) / (3.9 - 0.1))
    assert rate_of_all(known(5), 0, SECOND, SECOND) is None


class Bursts:
    """A clock, and a client whose queries of a second all end in its first tenth; it reports at the end of each."""

    every, failed = 1.0, ""

    def __init__(self) -> None:
        self.now, self.known = 1000 * SECOND, KnownCounts()
        self.count = Count("bursts", lambda: self.true(self.now))

    def true(self, moment: int) -> float:
        return 1000 * (moment // SECOND + min(moment % SECOND / (SECOND // 10), 1.0))

    def ask(self) -> None:
        self.known.add(self.now // SECOND * SECOND, self.true(self.now // SECOND * SECOND))

    def at(self, moment: int) -> float | None:
        return self.known.at(moment)

    def off(self, moment: int) -> float:
        return self.known.off(moment)

    def monotonic_ns(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return self.now / SECOND

    def sleep(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)
        self.ask()


@pytest.mark.parametrize("lengths", [(0.3, 0.3, 0.3), (1.0, 2.4, 1.6)])
def test_no_window_is_shorter_than_a_report_or_ends_between_two(
    lengths: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between reports it is not known that queries come in bursts: of 0.3 s too few or too many were counted."""
    client = Bursts()
    for module in ("attached", "windows", "target_counters"):
        monkeypatch.setattr(
            f"collectors.{module}.time", SimpleNamespace(**{**vars(__import__("time")), **_clock(client)})
        )
    probe = TargetProbe(Target([os.getpid()]), None, lambda _, name: name)
    windows = AttachedWindows(probe, {"": client}, Reporter(quiet=True))
    windows.warm_up(0.4, "")
    windows.plain(lengths[0])
    windows.observed(NullObserver(), lengths[1])
    windows.plain(lengths[2])
    client.sleep(1)
    found = windows.windows()[1:]
    assert [one.kind for one in found] == ["plain", "null", "plain"] and all(one.seconds > 0.98 for one in found)
    for one in found:
        # Within a hundredth of a second, at which reports are looked for: a tenth of a burst at either end.
        assert one.counters.queries == pytest.approx(1000 * round(one.seconds), abs=25)
        assert one.counters.queries == pytest.approx(client.true(one.end_ns) - client.true(one.start_ns), abs=250)


def _clock(client: Bursts) -> dict[str, Callable[..., float | None]]:
    return {"monotonic": client.monotonic, "monotonic_ns": client.monotonic_ns, "sleep": client.sleep}


def test_what_is_forgotten_changes_nothing_of_later_moments() -> None:
    known, whole = KnownCounts(), KnownCounts()
    for second in range(20):
        for counts in (known, whole):
            counts.add(second * SECOND, second**2 * 10.0)
    known.forget(10 * SECOND + SECOND // 2)
    moments = [10 * SECOND + SECOND // 2, 12 * SECOND, 19 * SECOND]
    assert [known.at(moment) for moment in moments] == [whole.at(moment) for moment in moments]
    assert known.at(9 * SECOND) is None and len(known.moments) == len(known.values) == 10
