"""Short profiles of other configurations than the default: iobuf, byrx, two threads, DWARF."""

from __future__ import annotations

from pathlib import Path

import pytest

from ground.results.categories import read_categories
from ground.results.files import Files
from ground.results.run import open_run
from tests.conftest import Ioflame
from tests.e2e.explained import assert_explained

pytestmark = [pytest.mark.long, pytest.mark.needs("perf", "db_bench")]


# The cache has to be full before the windows: a warm-up is as long as the CPU that it gets.
@pytest.mark.alone
@pytest.mark.parametrize("configuration", ["iobuf", "byrx"])
def test_a_run_whose_reads_need_no_device_says_so(
    ioflame: Ioflame, short: list[str], tmp_path: Path, configuration: str
) -> None:
    words = ("--callgraph", "fp", "--config", configuration, "--duration", "1")
    code, out, err = ioflame.run(*short, "--out", tmp_path, *words)
    assert code == 0, err + out
    record = open_run((tmp_path / "latest").resolve()).record
    assert_explained(ioflame, record, *short[1:], "--config", configuration)
    checks = {c.name: c for c in record.checks}
    assert "it was not dropped, and may be warm" in checks["page cache"].value
    # 166 MB fit into this host's page cache, and into a block cache of one and a half times the data.
    assert record.metrics["readsPerQuery"] < 0.9
    code, _, err = ioflame.run("show", tmp_path / "latest", "waits")
    assert code == 2 and "waits was not measured" in err and "one of: owner, leaf, parts, windows" in err
    if configuration == "byrx":
        assert record.metrics["readsPerQuery"] < 0.05
        assert "cpuPerRead" not in record.metrics
        assert "cached" in checks


# Where two perf record while BPF programs come and go, Linux 6.18 gives one of them ksymbol records that are too large,
# with what the buffer held before at their end. Between copies of stacks that is taken for numbers of events that there
# are none of, and perf report stops.
@pytest.mark.alone
def test_two_threads_with_dwarf_unwinding_in_windows_of_five_seconds(
    ioflame: Ioflame, short: list[str], tmp_path: Path
) -> None:
    """One run for all three: it takes half a minute. Of fewer seconds there is no interval."""
    words = ("--threads", "2", "--callgraph", "dwarf", "--freq", "499", "--duration", "5")
    code, out, err = ioflame.run(*short, "--out", tmp_path, *words)
    assert code == 0, err + out
    record = open_run((tmp_path / "latest").resolve()).record
    profile = record.profile
    assert profile is not None
    # The same totals as with frame pointers, and leaf functions keep their callers.
    assert profile.callgraph == "dwarf"
    assert 0 < profile.weight == profile.report_weight
    # 16 KiB of stack reach the thread's start; the default 8 KiB of perf would lose most of these stacks.
    assert profile.incomplete_weight < 0.05 * profile.weight
    # Two threads get two seeds, and both are counted.
    (seeds,) = [s for s in record.seeds if s.step == "readrandom"]
    assert (record.threads, seeds.threads) == (2, 2)
    assert record.metrics["rx.lat"] == pytest.approx(2e6 / record.metrics["qps"])
    tids = {line.split(b";")[0] for line in (tmp_path / "latest" / Files.FOLDED).read_bytes().splitlines()}
    assert tids == {b"db_bench"}

    for view in ("owner", "leaf", "parts"):
        code, text, err = ioflame.run("show", tmp_path / "latest", view)
        assert code == 0 and "95 %" in text, err
        categories = read_categories(tmp_path / "latest", view)
        assert len(categories.slices) in (5, 6)  # whole seconds of the trace's clock, which cut a window anywhere
        for i, row in enumerate(categories.rows):
            assert sum(second[i] for second in categories.slices) == row.weight
            assert row.interval is not None
            assert row.interval.low <= row.share <= row.interval.high
    libc = read_categories(tmp_path / "latest").rows[0].interval
    assert libc is not None
    assert 0 < libc.high - libc.low < 30

    # All of it is said on one screen; the paths below it are as long as they are, and one in a command that prints more
    # has a line of its own where it is wider.
    screen = out.splitlines()
    assert len(screen) <= 50
    wide = {line for line in screen if len(line) > 100 and not line.startswith(("run:", "report:", "next:"))}
    assert wide <= {str((tmp_path / "latest").resolve())}
    assert "Where the CPU of one query goes" in screen
