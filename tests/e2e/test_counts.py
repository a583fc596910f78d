"""What counts a target's queries: an endpoint of Prometheus and a command, and what either may do wrong."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from collectors.counts import Count, QueryCount, command_count, prometheus_count
from ground.errors import MeasurementError, UsageError
from ground.system.process import Children
from tests.e2e.commands import endpoint


def test_an_endpoint_is_asked_itself_and_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # nobody answers there
    with endpoint(lambda: b'reads_total{kind="get"} 40\nreads_total{kind="scan"} 5e1 # {trace="} 9"} 0.6\n') as url:
        assert prometheus_count(url, "reads_total").read() == 90
        with pytest.raises(MeasurementError, match="has no series writes_total"):
            prometheus_count(url, "writes_total").read()
    with pytest.raises(UsageError, match="no address"):
        prometheus_count("ftp://x", "y")


def test_an_endpoint_that_hangs_is_waited_for_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collectors.counts._ANSWER_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        count = prometheus_count(f"http://127.0.0.1:{hanging.getsockname()[1]}/", "reads_total")
        with pytest.raises(MeasurementError, match="does not answer: timed out"):
            count.read()


def test_a_counter_that_goes_down_counts_no_more() -> None:
    answers = iter((10.0, 30.0, 7.0, 50.0))
    count = QueryCount(Count("test", lambda: next(answers)))
    before = time.monotonic_ns()
    for _ in range(4):
        count.ask()
    assert count.failed == "it went down, from 30 to 7: it is not a count, or began anew"
    assert count.asked == 2 and count.at(before) is None and count.at(time.monotonic_ns()) is None


def test_what_a_command_prints_is_the_count(tmp_path: Path) -> None:
    with Children() as children:
        with pytest.raises(MeasurementError, match="printed 'a b', which is not a number"):
            command_count("echo a b", children).read()
        with pytest.raises(MeasurementError, match="failed with exit code 3: no server"):
            command_count("echo no server >&2; exit 3", children).read()
        growing = command_count(f"echo warning >&2; printf . >>{tmp_path}/n; wc -c <{tmp_path}/n", children)
        assert [growing.read() for _ in range(3)] == [1, 2, 3]
