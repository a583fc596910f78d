from __future__ import annotations

import pytest

from ground.errors import EXIT_USAGE, UsageError
from ioflame.cli import main
from tests.ioflame.asked import options


def test_defaults_leave_sizes_to_the_scale() -> None:
    found = options()
    assert (found.workload, found.engine, found.threads, found.frequency) == ("readrandom", "rocksdb", 1, 999)
    assert (found.num_keys, found.cache_size, found.duration) == (None, None, None)


def test_sizes_and_counts_are_read_as_people_write_them() -> None:
    found = options("--num-keys", "10M", "--cache-size", "64M", "--duration", "30")
    assert (found.num_keys, found.cache_size, found.duration) == (10_000_000, 64 << 20, 30)


def test_records_of_single_queries_are_asked_for_by_themselves_or_among_what_is_collected() -> None:
    assert (options().tail, options("--tail", "force", "--threshold-us", "500").threshold_us) == (None, 500)
    found = options("--collect", "perf,tail", "--threshold-us", "500")
    assert (found.tail, found.collect, found.threshold_us) == (None, ("perf", "tail"), 500)


def test_an_empty_value_is_no_value() -> None:
    assert options("--num-keys", "", "--db-bench", "").num_keys is None


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("--threads", "0"), "THREADS=0 is out of range"),
        (("--threads", "two"), "THREADS=two"),
        (("--num-keys", "many"), "NUM_KEYS=many"),
        (("--cache-size", "12"), "CACHE_SIZE=12 is out of range"),
        (("--duration", "-5"), "DURATION=-5"),
        (("--freq", "1000000"), "FREQ=1000000"),
        (("--cpus", "first"), "CPUS=first is no list of CPUs"),
        (("--cpus", "0-"), "CPUS=0- is no list"),
        (("--cpus", "5-3"), "CPUS=5-3: 5-3 is no range"),
        (("--cpus", "0,99999"), "may not run on CPU 99999"),
        (("--callgraph", "lbr"), "CALLGRAPH=lbr is not known"),
        (("--event", "cycles,instructions"), "EVENT='cycles,instructions'"),
        (("--event", "-a"), "EVENT='-a'"),
        (("--tail", "2"), "TAIL=2 is not known"),
        (("--threshold-us", "500"), "THRESHOLD_US=500 has no effect"),
    ],
)
def test_a_bad_value_is_named_with_its_mend(words: tuple[str, ...], names: str) -> None:
    with pytest.raises(UsageError) as caught:
        options(f"{words[0]}={words[1]}")
    assert names in str(caught.value)
    assert "fix:" in str(caught.value)
    assert caught.value.exit_code == EXIT_USAGE


@pytest.mark.parametrize("command", ["experiment", "explain"])
def test_an_experiment_names_its_own_workloads(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert main([command, "io-efficiency", "--workload", "fwdrange"]) == 2
    assert "WORKLOAD=fwdrange has no effect on an experiment" in capsys.readouterr().err
