"""stackfold on real recordings, with perf report as the judge."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest

from collectors.perf import Plan, Recording
from folding.stackfold import fold
from ground.errors import MeasurementError
from ground.results.files import Files
from ground.system.observer import attached
from ground.system.process import Children
from ground.text.progress import Reporter
from tests.folding.recordings import ends_where_it_should, uses_cpu

LONG, PERF = pytest.mark.long, pytest.mark.needs("perf")
# Two processes of one program run the same symbols, for different lengths of time.
PROGRAM = "while True: sum(range(1000))"

_COMM = 3  # a record that is no sample


def record_each(plan: Plan, data: Path, *pids: int) -> None:
    """Until each has had 0.3 s on a CPU."""
    with Children() as children:
        recording = Recording(children, plan, list(pids), data, data.with_name("log"))
        with attached(recording, Reporter(quiet=True)):
            recording.open()
            uses_cpu(0.3, *pids)
            recording.close()
    ends_where_it_should(data)


@LONG
@PERF
@pytest.mark.parametrize("callgraph", ["fp", "dwarf"])
def test_each_process_of_a_recording_folds_to_its_own_weight(tmp_path: Path, callgraph: str) -> None:
    processes = [subprocess.Popen(["python3", "-c", PROGRAM]) for _ in range(2)]
    try:
        # Of the processes alone: perf 6.1 cannot report every recording of the whole system on a busy host.
        plan = Plan("cpu-clock", 499, "process", callgraph, ())
        record_each(plan, tmp_path / "perf.data", *(process.pid for process in processes))
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for process in processes:
        directory = tmp_path / str(process.pid)
        directory.mkdir()
        folded = fold(tmp_path / "perf.data", directory, [process.pid], rules="rocksdb", check="symbols")
        stats = folded.statistics
        assert folded.check is not None
        (comparison,) = folded.check.events
        assert stats.weight == comparison.folded == comparison.reported > 10**8
        assert sum(folded.weight_by_comm().values()) == stats.weight
        assert comparison.differences == []
        assert comparison.symbols > 1  # a stripped interpreter shows exported names alone, that of Python 3.13 two
        totals = fold(tmp_path / "perf.data", tmp_path, [process.pid], check="totals").check
        assert totals is not None and [one.reported for one in totals.events] == [comparison.reported]
        assert totals.events[0].symbols == 1 and totals.events[0].differences == []
        counts = (directory / Files.SAMPLE_COUNTS).read_bytes().splitlines()
        assert sum(int(line.rpartition(b" ")[2]) for line in counts) == stats.samples
        stacks = (directory / Files.FOLDED).read_bytes().splitlines()
        assert [line.rpartition(b" ")[0] for line in counts] == [line.rpartition(b" ")[0] for line in stacks]


def test_a_recording_that_is_none_is_refused_with_its_name_and_perfs_words(tmp_path: Path) -> None:
    (tmp_path / "perf.data").write_bytes(b"not a recording")
    with pytest.raises(MeasurementError, match="stackfold failed with exit code") as caught:
        fold(tmp_path / "perf.data", tmp_path, [1])
    assert str(tmp_path / "perf.data") in caught.value.mend
    assert not (tmp_path / Files.PROFILE).exists()


@LONG
@PERF
def test_a_recording_that_perf_report_gives_up_on_is_folded_and_says_why_it_is_unchecked(
    burner: subprocess.Popen[str], tmp_path: Path
) -> None:
    path = tmp_path / "perf.data"
    record_each(Plan("cpu-clock", 199, "system", "fp", ()), path, burner.pid)
    data = bytearray(path.read_bytes())
    # Its header gives the offset of the records; one that is no sample gets the number of an event that does not exist,
    # as Linux 6.18 writes them where BPF programs come and go.
    at, size = struct.unpack_from("<2Q", data, 40)
    ends = []
    while at < struct.unpack_from("<Q", data, 40)[0] + size:
        kind, _, length = struct.unpack_from("<IHH", data, at)
        at += length
        if kind == _COMM:
            ends.append(at)
    struct.pack_into("<Q", data, ends[-1] - 16, 1 << 40)  # it ends in the event's number and the CPU
    path.write_bytes(data)
    folded = fold(path, tmp_path, [burner.pid], check="totals")
    if folded.check is None:
        assert folded.unchecked is not None and "perf report failed: " in folded.unchecked
    else:  # perf 6.12 passes over it
        assert folded.check.events[0].equal
    assert folded.statistics.weight == sum(stack.weight for stack in folded.each_stack()) > 0


@LONG
@PERF
def test_a_process_without_samples_is_refused(burner: subprocess.Popen[str], tmp_path: Path) -> None:
    record_each(Plan("cpu-clock", 199, "process", "fp", ()), tmp_path / "perf.data", burner.pid)
    with pytest.raises(MeasurementError, match="passed --only-pid"):
        fold(tmp_path / "perf.data", tmp_path, [1])
