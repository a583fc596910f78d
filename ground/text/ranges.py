"""Numbers that a user gives, each within a range of its own: without one, infinity ends in an exception somewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ground.errors import UsageError
from ground.settings import Setting

_Number = TypeVar("_Number", int, float)
_KINDS: dict[object, str] = {int: "a whole number", float: "a number"}


def number(name: Setting | str, text: str, parse: Callable[[str], _Number], least: _Number, most: _Number) -> _Number:
    """The value of an option; UsageError, which calls it `name`, where it is none or out of range."""
    mend = f"{name}=<{least}..{most}>"
    try:
        value = parse(text)
    except OverflowError:  # of a size or a count with a unit
        value = most + 1
    except ValueError as error:
        words = f"{text!r} is not {_KINDS[parse]}" if parse in _KINDS else str(error)
        raise UsageError(f"{name}={text:.40}: {words:.200}", means="nothing was started", mend=mend) from None
    if not least <= value <= most:
        raise UsageError(f"{name}={text:.40} is out of range", means="nothing was started", mend=mend)
    return value


def within(name: str, parse: Callable[[str], _Number], least: _Number, most: _Number) -> Callable[[str], _Number]:
    """The `type` of an argument of argparse that is such a number."""
    return lambda text: number(name, text, parse, least, most)
