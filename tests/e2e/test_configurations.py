"""A profile of two threads with copied stacks: where they begin, and what a second of each cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from ground.results.categories import read_categories
from ground.results.files import Files
from tests.e2e.commands import measured
from tests.ioflame.asked import asked

pytestmark = [pytest.mark.long, pytest.mark.needs("perf", "db_bench")]


# Where two perf record while BPF programs come and go, Linux 6.18 gives one of them ksymbol records that are too large,
# with what the buffer held before at their end. Between copies of stacks that is taken for numbers of events that there
# are none of, and perf report stops: what it would add up to is compared in the runs with frame pointers.
def test_two_threads_with_dwarf_unwinding_in_windows_of_five_seconds(
    capsys: pytest.CaptureFixture[str], short: list[str], tmp_path: Path
) -> None:
    """Of fewer seconds there is no interval."""
    words = ["--threads=2", "--callgraph=dwarf", "--freq=499", "--duration=10", "--config=iobuf"]
    done = measured(tmp_path, *short, *words)
    record, directory = done.record, done.run.directory
    profile = record.profile
    assert profile is not None and profile.callgraph == "dwarf" and profile.weight > 0
    # 16 KiB of stack reach the thread's start; the default 8 KiB of perf would lose most of these stacks.
    assert profile.incomplete_weight < 0.05 * profile.weight
    # Two threads get two seeds, and both are counted.
    (seeds,) = [s for s in record.seeds if s.step == "readrandom"]
    assert (record.threads, seeds.threads) == (2, 2)
    assert record.metrics["rx.lat"] == pytest.approx(2e6 / record.metrics["qps"])
    tids = {line.split(b";")[0] for line in done.run.path(Files.FOLDED).read_bytes().splitlines()}
    assert tids == {b"db_bench"}

    for view in ("owner", "leaf", "parts"):
        code, text, err = asked(capsys, "show", directory, view)
        assert code == 0 and "95 %" in text, err
        categories = read_categories(directory, view)
        # Whole seconds of the trace's clock, which cut a window anywhere.
        assert len(categories.slices) >= 5
        assert [sum(row) for row in zip(*categories.slices, strict=True)] == [row.weight for row in categories.rows]
        assert all(row.interval and row.interval.low <= row.share <= row.interval.high for row in categories.rows)
