"""How many queries a service had finished at any moment, by a counter of its own that is asked for."""

from __future__ import annotations

import bisect
import re
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ground.errors import MeasurementError, UsageError
from ground.system.process import Children
from ground.system.repeated_command import RepeatedCommand

__all__ = ("Count", "QueryCount", "command_count", "prometheus_count")

# A counter that takes longer to ask for holds up the window that it is asked in.
_ANSWER_SECONDS = 5.0
# A sample of the text format: name{label="value",...} value [timestamp]; OpenMetrics may add an exemplar.
_SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)\s*(?:\{(.*?)\})?\s+(\S+)(?:\s+-?[\d.]+)?(?:\s+#\s.*)?\s*$")
_LABEL = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Count:
    """what: what is asked, in words; read: its value now; MeasurementError where there is no answer

    lag: how old a value may be, s
    """

    what: str
    read: Callable[[], float]
    lag: float = 0.0


def command_count(command: str, children: Children, lag: float = 0.0) -> Count:
    """A command for the shell that prints one growing number, at most `lag` seconds old. children: what runs it is one
    of them"""
    repeated = RepeatedCommand(children, "count", command)

    def read() -> float:
        done = repeated.run(_ANSWER_SECONDS).require(f"the count ({command})")
        words = done.text.split()
        try:
            (value,) = map(float, words)
        except ValueError:
            raise MeasurementError(
                f"the count printed {done.text.strip()[:80]!r}, which is no number",
                means="it has to print one growing number and nothing else",
                mend=f"sh -c {shlex.quote(command)}",
            ) from None
        return value

    return Count(command, read, lag)


def prometheus_count(url: str, metric: str) -> Count:
    """A counter of an endpoint in Prometheus' text format: the sum over its series.

    metric: its name, or NAME{label="value"}: then of the series that have these labels
    """
    if not url.startswith(("http://", "https://")):
        raise UsageError(
            f"{url} is no address of an endpoint", mend="--count-prometheus http://127.0.0.1:9090/metrics NAME"
        )
    # 40 ms of CPU to import: only where an endpoint is asked.
    from urllib.request import ProxyHandler, build_opener

    # It is asked itself, whatever proxy the environment has for others.
    opener = build_opener(ProxyHandler({}))
    name, _, inside = metric.partition("{")
    wanted = set(_LABEL.findall(inside))

    def read() -> float:
        try:
            with opener.open(url, timeout=_ANSWER_SECONDS) as answer:
                deadline = time.monotonic() + _ANSWER_SECONDS
                body = b""
                while part := answer.read1(1 << 16):
                    body += part
                    if time.monotonic() > deadline:
                        raise TimeoutError("timed out")
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise MeasurementError(
                f"{url} does not answer: {reason}",
                means="queries cannot be counted",
                mend=f"curl -m 5 {shlex.quote(url)}",
            ) from None
        found = [_value(line, name, wanted) for line in body.decode("utf-8", "replace").splitlines()]
        values = [value for value in found if value is not None]
        if not values:
            raise MeasurementError(
                f"{url} has no series {metric}",
                means="queries cannot be counted",
                mend=f"curl -s {shlex.quote(url)} | grep -v '^#' | cut -d' ' -f1   (lists what it has)",
            )
        return sum(values)

    return Count(f"{metric} of {url}", read)


def _value(line: str, name: str, wanted: set[tuple[str, str]]) -> float | None:
    matched = _SAMPLE.match(line)
    if matched is None or matched[1] != name or not wanted <= set(_LABEL.findall(matched[2] or "")):
        return None
    try:
        return float(matched[3])
    except ValueError:
        return None


@dataclass
class QueryCount:
    """The answers of a count, and what they say of any moment between them.

    failed: why it counts no more: it went down, or did not answer; "" as long as it does
    seconds: what asking took, all in all
    """

    count: Count
    failed: str = ""
    seconds: float = 0.0
    _moments: list[int] = field(default_factory=list)
    _values: list[float] = field(default_factory=list)

    def ask(self) -> None:
        """Asks it now; says nothing where it has failed, which `failed` does."""
        if self.failed:
            return
        begun = time.monotonic_ns()
        try:
            value = self.count.read()
        except MeasurementError as error:
            self.failed = error.what
            return
        ended = time.monotonic_ns()
        self.seconds += (ended - begun) / 1e9
        if self._values and value < self._values[-1]:
            self.failed = f"it went down, from {self._values[-1]:,.0f} to {value:,.0f}: it is no count, or began anew"
            return
        self._moments.append((begun + ended) // 2)
        self._values.append(value)

    @property
    def asked(self) -> int:
        return len(self._moments)

    def at(self, moment_ns: int) -> float | None:
        """Queries finished at a moment (CLOCK_MONOTONIC), between two answers linearly; None outside of them."""
        if len(self._moments) < 2 or not self._moments[0] <= moment_ns <= self._moments[-1]:
            return None
        right = max(1, min(bisect.bisect_right(self._moments, moment_ns), len(self._moments) - 1))
        (begin, end), (first, last) = self._moments[right - 1 : right + 1], self._values[right - 1 : right + 1]
        return first + (last - first) * (moment_ns - begin) / (end - begin)
