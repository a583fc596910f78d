"""Clients that print how many queries they have finished, or run a known function for each: a file each.

`workloads/clients/NAME.toml`, or one of the user's own; docs/running.md describes the keys.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from ground.errors import RefusedError, UsageError
from ground.system.atomic_files import read_toml

_DIRECTORY = Path(__file__).with_name("clients")
# What a group of `line` may mean; the first two say how many.
_COUNTS = ("rate", "total")
_GROUPS = (*_COUNTS, "seconds")
_EXAMPLE = r"line = '(?P<rate>[\d.]+) ops/sec'"


class Calls(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """function: runs once a query; words: where one of these is in the command, or none is needed"""

    function: str
    words: list[str] = []


class CountedClient(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A client, as its file describes it.

    about:    what is counted, in a line
    program:  pattern of its name; of a program for Java, of its class
    words, without: it counts only with one of these words, or without any of these options
    stream, line: where it prints, and the pattern of a line; groups: `rate`, `total`, `seconds`
    prints:   options with which it prints such lines; none where it does so anyway
    add:      words that make it do so
    before:   what starts it so that it prints each line at once
    duration: options that say how many s it runs; default_duration: without them
    clients:  options that say how many of its connections or threads wait for a query each; one without them
    calls:    of a client that prints nothing
    server:   what its queries go to; "" where they go to itself
    """

    about: str
    program: str
    words: list[str] = []
    without: list[str] = []
    stream: Literal["stdout", "stderr"] = "stdout"
    line: str = ""
    prints: list[str] = []
    add: list[str] = []
    before: list[str] = []
    duration: list[str] = []
    default_duration: float | None = None
    clients: list[str] = []
    calls: list[Calls] = []
    server: str = ""

    def is_named(self, name: str) -> bool:
        return bool(re.fullmatch(self.program, name))

    def counts(self, words: Sequence[str]) -> bool:
        """Whether a command with these words is one whose queries are known."""
        if any(_given(words, option) for option in self.without) or not _has_one(words, self.words):
            return False
        return bool(self.line) or self.function(words) is not None

    def function(self, words: Sequence[str]) -> str | None:
        """That runs once a query of such a command."""
        return next((one.function for one in self.calls if _has_one(words, one.words)), None)

    def missing(self, words: Sequence[str]) -> list[str]:
        """What has to be added to such a command, so that it prints its lines."""
        printing = not self.prints or any(_given(words, option) for option in self.prints)
        return [] if printing else list(self.add)

    def seconds(self, words: Sequence[str]) -> float | None:
        """How long such a command runs; None where that is not known."""
        asked = _number(words, self.duration, self.default_duration)
        return asked if asked is not None and asked > 0 else None

    def queries_at_once(self, words: Sequence[str]) -> int:
        """Of such a command; 0 where that is not known."""
        found = _number(words, self.clients, 1.0) if self.clients else None
        return int(found) if found is not None and found == int(found) else 0

    @property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(self.line)


def client_names() -> list[str]:
    """Those that come with ioflame."""
    return sorted(path.stem for path in _DIRECTORY.glob("*.toml"))


def client_of(program: str, words: Sequence[str]) -> CountedClient | None:
    """Of a command whose program has this name. words: of the command"""
    known = map(read_client, client_names())
    return next((one for one in known if one.is_named(program) and one.counts(words)), None)


def read_client(name: str) -> CountedClient:
    """By the name of one that comes with ioflame, or the path of a file; UsageError where it describes none."""
    path = Path(name) if name.endswith(".toml") else _DIRECTORY / f"{name}.toml"
    if not path.is_file():
        raise RefusedError(
            f"--client {name}: there is no such client", mend=f"--client {'|'.join(client_names())}, or a .toml file"
        )
    try:
        client = msgspec.convert(read_toml(path), CountedClient)
    except (OSError, ValueError) as error:  # msgspec's errors are of the latter
        raise _wrong(path, str(error), f"keys: {', '.join(CountedClient.__struct_fields__)}") from None
    _check(path, client)
    return client


def _check(path: Path, client: CountedClient) -> None:
    for key in ("program", "line"):
        try:
            groups = set(re.compile(getattr(client, key)).groupindex)
        except re.error as error:
            raise _wrong(path, f"{key} = {getattr(client, key)!r} is no pattern: {error}", _EXAMPLE) from None
    if unknown := groups - set(_GROUPS):
        raise _wrong(path, f"line has the group {sorted(unknown)[0]!r}", f"groups: {', '.join(_GROUPS)}")
    if client.line and len(groups & set(_COUNTS)) != 1:
        raise _wrong(path, "line needs one of the groups 'rate' (a second) and 'total' (so far)", _EXAMPLE)
    if bool(client.line) == bool(client.calls):
        raise _wrong(path, "it needs either line or [[calls]]: what counts its queries", _EXAMPLE)


def _wrong(path: Path, what: str, mend: str) -> UsageError:
    return UsageError(f"{path}: {what}", means="no query would be counted; nothing was started", mend=mend)


def _has_one(words: Sequence[str], wanted: Sequence[str]) -> bool:
    return not wanted or any(word in wanted for word in words)


def _given(words: Sequence[str], option: str) -> bool:
    """-P, -P1; --progress, --progress=1."""
    if option.startswith("--"):
        return any(word == option or word.startswith(f"{option}=") for word in words)
    return any(word.startswith(option) for word in words)


def _number(words: Sequence[str], options: Sequence[str], otherwise: float | None) -> float | None:
    """The value of the last of the options that is given; None where it is no number."""
    values = [value for option in options if (value := _value(words, option)) is not None]
    try:
        number = float(values[-1]) if values else otherwise
    except ValueError:
        return None
    return number if number is None or math.isfinite(number) else None


def _value(words: Sequence[str], option: str) -> str | None:
    """-T 60, -T60; --time=60, --time 60; the last counts."""
    found = None
    for place, word in enumerate(words):
        if word == option:
            found = words[place + 1] if place + 1 < len(words) else found
        elif word.startswith(f"{option}=") or (not option.startswith("--") and word.startswith(option)):
            found = word[len(option) :].removeprefix("=")
    return found
