"""What counts a service's queries: what it answers, and what it must not do to who asks."""

from __future__ import annotations

import contextlib
import resource
import socket
import threading
from collections.abc import Iterator

import pytest

from collectors.counts import QueryCount, command_count, prometheus_count
from ground.errors import MeasurementError, UsageError
from ground.system.http_answer import http_answer
from ground.system.process import Children
from ioflame.measure.agent import _fetched


@contextlib.contextmanager
def answering(*parts: bytes, pause: float = 0.0) -> Iterator[str]:
    """The address of a server that sends these parts to whoever comes, whatever is asked. pause: after each, s"""
    done = threading.Event()

    def serve(listening: socket.socket) -> None:
        while not done.is_set():
            with contextlib.suppress(OSError):
                connection, _ = listening.accept()
                with connection:
                    connection.recv(1 << 16)
                    for part in parts:
                        connection.sendall(part)
                        if done.wait(pause):
                            return

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/metrics"
        done.set()
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def body(text: str) -> bytes:
    return b"HTTP/1.1 200 OK\r\n\r\n" + text.encode()


_HARD = """\
  reads_total{kind="get",note="} 7 # "} 10 1.7e12
\treads_total{kind="scan",note="a\\"b"} 9e1 # {trace="} 5"} 0.6
reads_total_created{kind="get"} 1.7e9
# reads_total{kind="get"} 1000
"""


def test_series_are_chosen_as_the_format_writes_them() -> None:
    with answering(body(_HARD)) as url:
        assert prometheus_count(url, "reads_total").read() == 100
        assert prometheus_count(url, 'reads_total{kind="get"}').read() == 10
        assert prometheus_count(url, 'reads_total{note="a\\"b"}').read() == 90


@pytest.mark.parametrize(
    "metric", ['q{k=~"get"}', 'q{k!="get"}', "q{k='get'}", "q{k=get}", 'q{k="get"', "q-r", "", "q 1", "q 0", "q #"]
)
def test_matchers_that_are_not_understood_are_refused(metric: str) -> None:
    with pytest.raises(UsageError, match="expected NAME or NAME"):
        prometheus_count("http://127.0.0.1:9/metrics", metric)


@pytest.mark.parametrize("line", ["q 1_000", 'q{k="get" 7', "q", "q seven"])
def test_a_line_of_the_metric_that_is_not_understood_fails_the_count(line: str) -> None:
    with (
        answering(body(f"q 1\n{line}\n")) as url,
        pytest.raises(MeasurementError, match="a line of q that is not in Prometheus' text format"),
    ):
        prometheus_count(url, "q").read()


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "1e300"])
def test_what_is_no_number_of_queries_fails_the_count(value: str) -> None:
    with answering(body(f"q {value}\n")) as url, Children() as children:
        for count in (prometheus_count(url, "q"), command_count(f"echo {value}", children)):
            asked = QueryCount(count)
            asked.ask()
            assert asked.failed.startswith("it answered") and asked.failed.endswith("which is not a number of queries")
            assert asked.asked == 0


_HEAD = b"HTTP/1.1 200 OK\r\n"
_BROKEN = {
    "cut body": _HEAD + b"Content-Length: 100\r\n\r\nq 1\n",
    "broken chunk": _HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nq 1\n",
    "too many headers": _HEAD + b"".join(b"X-%d: y\r\n" % number for number in range(200)) + b"\r\nq 1\n",
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
    "nothing": b"",
}


@pytest.mark.parametrize("answer", _BROKEN.values(), ids=_BROKEN)
def test_an_answer_that_is_no_whole_http_is_an_error_with_its_reason(answer: bytes) -> None:
    with answering(answer) as url:
        with pytest.raises(MeasurementError, match="does not answer"):
            prometheus_count(url, "q").read()
        with pytest.raises(MeasurementError, match="hands out no profile"):
            _fetched(url)


@pytest.mark.parametrize("head", [b"", _HEAD + b"\r\n"], ids=["in its head", "in its body"])
def test_an_endpoint_that_sends_a_byte_now_and_then_holds_nobody_up(head: bytes) -> None:
    # Each byte comes well within the time, and all of them would take hours.
    with answering(head, *[b"H"] * 100_000, pause=0.02) as url, pytest.raises(OSError, match="timed out"):
        http_answer(url, 0.2, 1 << 20)


def test_an_endpoint_that_floods_is_cut() -> None:
    with answering(_HEAD + b"\r\n", *[bytes(1 << 16)] * 64) as url, pytest.raises(OSError, match="more than 1 MiB"):
        http_answer(url, 30.0, 1 << 20)


def test_a_command_that_floods_is_ended_and_not_kept(children: Children) -> None:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for command in ("yes", "yes >&2"):
        with pytest.raises(MeasurementError, match="printed more than 64 KiB"):
            command_count(command, children).read()
    # What it may print comes whole.
    long = command_count("head -c 60000 /dev/zero | tr '\\0' ' '; echo 7", children)
    assert [long.read() for _ in range(3)] == [7, 7, 7]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < most + (32 << 10)  # KiB
