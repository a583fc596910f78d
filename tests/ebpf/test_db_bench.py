"""A db_bench that reads, watched: the ladder that the command prints, and its threads' time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from folding.offcpu import fold_off_cpu
from ground.errors import EXIT_CHECK_FAILED, EXIT_OK
from ground.results.ladder import read_ladder
from tests.conftest import Ioflame
from tests.ebpf.conftest import FOUR_READERS, ONE_READER
from tests.ebpf.off_cpu_windows import adds_up, observe

pytestmark = [pytest.mark.needs("co-re", "db_bench")]


def command(ioflame: Ioflame, reader: int, out: Path, *seconds: str) -> str:
    code, text, errors = ioflame.run("ebpf", "ladder", f"--pid={reader}", "--sample=1", "--out", out, *seconds)
    assert code in (EXIT_OK, EXIT_CHECK_FAILED), text + errors
    return text


@pytest.mark.long
@pytest.mark.parametrize("reader", [ONE_READER, FOUR_READERS], indirect=True)
def test_the_ladder_of_db_bench_is_of_all_its_threads(
    reader: int, tmp_path: Path, ioflame: Ioflame, request: pytest.FixtureRequest
) -> None:
    threads, out = request.node.callspec.params["reader"][0], tmp_path / "ladder.json"
    text = command(ioflame, reader, out, "--seconds=2")
    ladder = read_ladder(out)
    assert ladder.start == "query" and ladder.threads == threads
    assert "rocksdb::DBImpl::Get, then rocksdb::RandomAccessFileReader::Read" in text
    assert "most of it is" in " ".join(text.split())
    assert sum(rung.sum_ns for rung in ladder.stages) == ladder.total.sum_ns
    assert 0 <= ladder.incomplete <= threads
    assert ladder.device is not None and ladder.device.followed <= ladder.device.reads


@pytest.mark.by_hand
@pytest.mark.parametrize("reader", [FOUR_READERS], indirect=True)
def test_query_and_the_clients_loop_fill_the_time_of_its_threads(
    reader: int, tmp_path: Path, ioflame: Ioflame, figure: Callable[..., None]
) -> None:
    command(ioflame, reader, tmp_path / "ladder.json", "--seconds=5")
    ladder = read_ladder(tmp_path / "ladder.json")
    share, error = ladder.cycle_ns / 1e3 / ladder.seen_us, 2 * ladder.error_ns / 1e3 / ladder.seen_us
    # What is missing is the traps' and the edges'.
    figure("query and loop, share of the threads' time", share, share - error, share + error, expected="0.98 to 1.02")


@pytest.mark.long
@pytest.mark.parametrize("reader", [FOUR_READERS], indirect=True)
def test_on_and_off_the_cpu_are_all_the_time_of_db_bench(reader: int, tmp_path: Path) -> None:
    off = observe(reader, tmp_path, sleeps=1000)
    adds_up(off)
    # The main thread waits for the others.
    assert sum(thread.voluntary > 10 for thread in off.threads) == 4
    stacks = fold_off_cpu(tmp_path / "off.data", "rocksdb")
    storage = sum(stack.ns for stack in stacks if stack.state == "io")
    # A reader without a cache waits for storage, in its read call.
    reading = sum(stack.ns for stack in stacks if (stack.state, stack.category) == ("io", "libc+k"))
    assert off.states["io"].ns == storage >= reading > storage / 2
