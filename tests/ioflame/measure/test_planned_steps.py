from __future__ import annotations

from ioflame.measure.planned_steps import steps_of_attach
from ioflame.measure.turns import Rounds


def test_an_attach_has_its_rounds_then_a_window_of_each_other_then_what_is_made_of_them() -> None:
    rounds = Rounds(4, 1.0, {"perf": 4, "iolat": 1})
    after = ["fold", "account", "draw"]
    steps = list(steps_of_attach(["perf", "iolat"], rounds, 4.0))
    assert [name for name, _ in steps] == ["rounds", *after]
    assert dict(steps)["rounds"] == rounds.lasting(["perf", "iolat"]) == 4 * (5 + 2) + 1
    # tail keeps the records of one stretch of time.
    steps = list(steps_of_attach(["perf", "tail"], rounds, 4.0))
    assert [name for name, _ in steps] == ["rounds", "plain", "tail", "plain", *after]
    # Nothing is made of it here.
    steps = list(steps_of_attach(["perf"], None, 4.0, alone=True))
    assert steps == [("plain", 4.0), ("perf", 16.0), ("plain", 4.0)]
