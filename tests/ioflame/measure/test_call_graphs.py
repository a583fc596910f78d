"""Which call graph trials choose: by what each left incomplete or lost, and on a program that leaves no choice."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from collectors.perf import Plan, record_for
from folding.stackfold import fold
from ground.results.profile import CutAt, CutCopies, FoldStats
from ground.system.process import Children
from ioflame.measure.call_graphs import choose_call_graph
from tests.programs import compiled

PLAN = Plan("cpu-clock", 999, "process", "fp", ("no counter",))


def left(incomplete: int, *, too_short: int = 0, lost: int = 0) -> FoldStats:
    """Of a weight of 100 in as many samples."""
    return FoldStats(
        event="cpu-clock", unit="ns", samples=100, weight=100, unique_stacks=1, lost_records=0, dropped_lines=0,
        incomplete_weight=incomplete, unresolved_weight=0, cut_copies=CutCopies(too_short, 0, 16384),
        truncated_chains=0, largest_sample_weight=1, lost_samples=lost, cut_at=[CutAt("memcpy", 40)][:incomplete],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("trials", "chosen", "says"),
    [
        ({"fp": left(10)}, "fp", "in a trial of 1 s: 10.0% by frame pointers"),
        ({"fp": left(45), "dwarf": left(0)}, "dwarf", "45.0% by frame pointers, 0.0% by DWARF, copies of 16,384 bytes"),
        # No longer copy than the trial says is needed.
        ({"fp": left(45), "dwarf": left(65, too_short=9)}, "fp", "65.0% by DWARF"),
        ({"fp": left(45), "dwarf": left(65, too_short=60), "dwarf,32768": left(2)}, "dwarf,32768", "2.0% by DWARF"),
        ({"fp": left(45), "dwarf": left(65, too_short=60), "dwarf,32768": left(60, too_short=50),
          "dwarf,65528": left(50, too_short=50)}, "fp", "copies of 65,528 bytes; chains end in memcpy (40.0%)"),
        ({"fp": left(45), "dwarf": left(0, lost=100)}, "fp", "50.0% by DWARF"),
        ({"fp": left(0, lost=100)}, "fp", "50.0% by frame pointers"),
        # Whatever perf loses of copies grows with the load: a small lead is none.
        ({"fp": left(45), "dwarf": left(41)}, "fp", "16,384 bytes; chains end in memcpy (40.0%)"),
        ({"fp": left(45), "dwarf": left(39)}, "dwarf", "chains end in memcpy (40.0%)"),
    ],
)  # fmt: skip
def test_the_better_one_is_taken_and_all_are_said(trials: dict[str, FoldStats], chosen: str, says: str) -> None:
    plan = choose_call_graph(PLAN, lambda plan: trials[plan.callgraph], lambda: True)
    assert plan.callgraph == chosen and plan.trials.keys() == trials.keys()
    assert plan.why[:-1] == PLAN.why and says in plan.why[-1]
    assert ("chains end" in plan.why[-1]) == (trials[chosen].incomplete_weight > 10)
    assert choose_call_graph(PLAN, lambda plan: trials[plan.callgraph], lambda: False).trials.keys() == {"fp"}


# Each frame has a buffer: 20 KiB from the leaf to the thread's start. Its code has no use for a frame pointer.
_DEEP = """
#include <string.h>
static volatile int one = 1;
__attribute__((noinline)) int burn(int depth) {
  char held[2048];
  memset(held, depth, sizeof held);
  if (depth) return burn(depth - 1) + held[one];
  for (;;) one = 1;
}
int main(void) { return burn(10); }
"""


@pytest.mark.long
@pytest.mark.needs("perf")
def test_copies_are_as_long_as_stacks_are(tmp_path: Path) -> None:
    program = compiled(_DEEP, tmp_path / "deep", "-O1", "-fomit-frame-pointer")

    def trial(plan: Plan) -> FoldStats:
        place = tmp_path / plan.callgraph
        place.mkdir()
        with Children() as children:
            record_for(children, plan, burner.pid, place / "perf.data", 0.2)
        seen[plan.callgraph] = fold(place / "perf.data", place, [burner.pid]).statistics
        return seen[plan.callgraph]

    seen: dict[str, FoldStats] = {}
    with subprocess.Popen([program]) as burner:
        try:
            plan = choose_call_graph(PLAN, trial, lambda: True)
        finally:
            burner.kill()
    assert plan.callgraph == "dwarf,32768" and list(plan.trials) == ["fp", "dwarf", "dwarf,32768"]
    assert seen["dwarf,32768"].incomplete_weight == 0 < seen["dwarf"].cut_copies.by_size
    assert seen["fp"].cut_at[0].frame == "burn"
