"""How many queries a service had finished at any moment, by a counter of its own that is asked for."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from collectors.known_counts import KnownCounts
from ground.errors import MeasurementError, UsageError
from ground.system.http_answer import http_answer
from ground.system.process import Children
from ground.system.repeated_command import RepeatedCommand

if TYPE_CHECKING:
    from prometheus_client.samples import Sample

# A counter that takes longer to ask for holds up the window that it is asked in.
_ANSWER_SECONDS = 5.0
# What an endpoint may answer with.
_MOST_BYTES = 64 << 20
# Beyond it a number is no count of queries, and differences have no units any more; NaN is not below it.
_MOST = 2.0**53


@dataclass(frozen=True)
class Count:
    """what: what is asked, in words; read: its value now; MeasurementError where there is no answer

    lag: how old a value may be, s
    """

    what: str
    read: Callable[[], float]
    lag: float = 0.0


class Counted(Protocol):
    """What knows how many queries were finished at a moment.

    count:  what is asked; failed: why it counts no more; "" as long as it does
    every:  seconds between two moments at which it is known, of a client that reports by itself; 0: whenever asked
    known:  at which moments it was
    """

    count: Count

    @property
    def failed(self) -> str: ...

    @property
    def every(self) -> float: ...

    @property
    def known(self) -> KnownCounts: ...

    def ask(self) -> None:
        """Takes in what it says now; `failed` says where it says nothing."""

    def at(self, moment_ns: int) -> float | None:
        """Queries finished at a moment (CLOCK_MONOTONIC); None where that is not known, or not yet."""

    def off(self, moment_ns: int) -> float:
        """Standard deviation of `at`, queries."""


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
                f"the count printed {done.text.strip()[:80]!r}, which is not a number",
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
    try:
        # It is written as the format writes a series.
        (wanted,) = _samples(f"{metric} 0")
        if wanted.value or wanted.timestamp is not None:
            raise ValueError(metric)
    except ValueError:
        raise UsageError(
            f'--count-prometheus {metric}: expected NAME or NAME{{label="value"}}',
            means="series are chosen by equal labels alone, in double quotes; nothing was attached",
            mend=f"--count-prometheus {shlex.quote(url)} 'NAME{{label=\"value\"}}'",
        ) from None

    def read() -> float:
        try:
            # It is asked itself, whatever proxy the environment has for others.
            body = http_answer(url, _ANSWER_SECONDS, _MOST_BYTES, proxies=False)
        except OSError as error:
            raise MeasurementError(
                f"{url} does not answer: {error}",
                means="queries cannot be counted",
                mend=f"curl -m 5 {shlex.quote(url)}",
            ) from None
        # An endpoint may have thousands of other series.
        lines = [line for line in body.decode("utf-8", "replace").split("\n") if wanted.name in line]
        try:
            samples = [sample for line in lines for sample in _samples(line)]
        except ValueError as error:
            raise MeasurementError(
                f"{url} answers with a line of {wanted.name} that is not in Prometheus' text format: {error}",
                means="queries cannot be counted",
                mend=f"curl -s {shlex.quote(url)} | grep {shlex.quote(wanted.name)}",
            ) from None
        labels = wanted.labels.items()
        values = [one.value for one in samples if one.name == wanted.name and labels <= one.labels.items()]
        if not values:
            raise MeasurementError(
                f"{url} has no series {metric}",
                means="queries cannot be counted",
                mend=f"curl -s {shlex.quote(url)} | grep -v '^#' | cut -d' ' -f1   (lists what it has)",
            )
        return sum(values)

    return Count(f"{metric} of {url}", read)


def _samples(line: str) -> list[Sample]:
    """Of a line of Prometheus' text format: one, or none of a comment. ValueError where it is not in that format."""
    # 40 ms of CPU to import: only where an endpoint is counted.
    from prometheus_client.parser import text_string_to_metric_families

    return [sample for family in text_string_to_metric_families(line) for sample in family.samples]


@dataclass
class QueryCount:
    """The answers of a count, and what they say of any moment between them.

    failed: why it counts no more: it went down, or did not answer; "" as long as it does
    seconds: what asking took, all in all
    """

    count: Count
    failed: str = ""
    seconds: float = 0.0
    every: float = 0.0
    known: KnownCounts = field(default_factory=KnownCounts)

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
        if not abs(value) < _MOST:
            self.failed = f"it answered {value:g}, which is not a number of queries"
            return
        values = self.known.values
        if values and value < values[-1]:
            self.failed = f"it went down, from {values[-1]:,.0f} to {value:,.0f}: it is not a count, or began anew"
            return
        self.known.add((begun + ended) // 2, value)

    @property
    def asked(self) -> int:
        return len(self.known.moments)

    def at(self, moment_ns: int) -> float | None:
        """Queries finished at a moment (CLOCK_MONOTONIC), between two answers linearly; None outside of them."""
        return self.known.at(moment_ns)

    def off(self, moment_ns: int) -> float:
        """An answer may be up to `lag` old, by any part of it as likely."""
        return math.hypot(self.known.off(moment_ns), self.known.rate * self.count.lag / math.sqrt(12))
