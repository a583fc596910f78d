"""Values that a user gives, each within a range of its own: without one, infinity ends in an exception somewhere."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

from ground.errors import RefusedError
from ground.settings import Option, Setting
from ground.text.units import parse_bytes, parse_count, parse_percent, parse_time

_Number = TypeVar("_Number", int, float)
_KINDS: dict[object, str] = {int: "a whole number", float: "a number"}
# Of options, by their kind.
_NUMBERS: dict[str, Callable[[str], Any]] = {
    "whole": int, "number": float, "size": parse_bytes, "count": parse_count, "time": parse_time,
    "percent": parse_percent,
}  # fmt: skip


def number(
    name: Setting | str, text: str, parse: Callable[[str], _Number], least: _Number, most: _Number, example: str = ""
) -> _Number:
    """The value of an option; UsageError, which calls it `name`, where it is none or out of range.

    example: of a value that has a unit
    """
    mend = f"{name}={example or f'<{least}..{most}>'}"
    try:
        value = parse(text)
    except OverflowError:  # of a size or a count with a unit
        value = most + 1
    except ValueError as error:
        words = f"{text!r} is not {_KINDS[parse]}" if parse in _KINDS else str(error)
        raise RefusedError(f"{name}={text:.40}: {words:.200}", mend=mend) from None
    if not least <= value <= most:
        raise RefusedError(f"{name}={text:.40} is out of range", mend=mend)
    return value


def within(name: str, parse: Callable[[str], _Number], least: _Number, most: _Number) -> Callable[[str], _Number]:
    """The `type` of an argument of argparse that is such a number."""
    return lambda text: number(name, text, parse, least, most)


def choice(name: Setting | str, text: str, known: Collection[str], to: str = "") -> str:
    """One of `known`; UsageError, which calls it `name`, where it is none of them. to: who knows these"""
    if text not in known:
        by = f" to {to}" if to else ""
        raise RefusedError(f"{name}={text} is not known{by}", mend=f"{name}={'|'.join(known)}")
    return text


def value_of(setting: Setting, form: Option, text: str) -> Any:
    """What is typed for an option, by its kind; UsageError where that makes no sense."""
    if form.kind in _NUMBERS:
        return number(setting, text, _NUMBERS[form.kind], form.least, form.most, form.example)
    if form.kind == "choice":
        return choice(setting, text, form.choices)
    return Path(text) if form.kind == "path" else text
