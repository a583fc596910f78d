"""The options of a command, from the one list of all of them in `ground.settings`."""

from __future__ import annotations

import argparse
import copy
import re
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from ground.errors import RefusedError, UsageError
from ground.settings import TARGETS, FrontEnd, Option, Setting, options_of, worded_for
from ground.text.ranges import value_of
from ioflame.instruments import INSTRUMENTS, by_default

# The first samples, the others are read with it.
_GROUP = re.compile(r"\{[\w:./-]+(?:,[\w:./-]+)+\}(?::S)?")


class Commands(Protocol):
    """What a command adds its parser to. help: what it does, in a line; more: what an ArgumentParser takes"""

    def add_parser(self, name: str, *, help: str, **more: Any) -> argparse.ArgumentParser: ...


def add_options(parser: argparse.ArgumentParser, command: str) -> None:
    """All options of the list that this command takes. Their values are checked as they are parsed."""
    for setting, form in options_of(command):
        words = _help(setting, form, command in TARGETS)
        add = partial(parser.add_argument, *setting.flags(form), dest=setting.name.lower(), help=words)
        if not form.metavar:
            add(action="store_true")
        elif form.several:
            add(action="append", default=[], metavar=form.metavar)
        elif form.kind == "text":
            add(default=form.default or None, metavar=form.metavar)
        else:
            add(type=_reader(setting, command), default=form.default or None, metavar=form.metavar)


def parsed(setting: Setting, command: str, text: str) -> Any:
    """The value of an option that was typed in another place, such as that of --factor."""
    return _reader(setting, command)(text)


def _reader(setting: Setting, command: str) -> Callable[[str], Any]:
    """The `type` of the option for argparse; of an empty text the default, or None."""
    form = setting.form(command)
    assert form is not None

    def read(text: str) -> Any:
        text = text or form.default
        if not text:
            return None
        with worded_for(FrontEnd.ATTACH if command in ("attach", "top", "run") else None):
            return _READERS[form.kind](text) if form.kind in _READERS else value_of(setting, form, text)

    return read


def _help(setting: Setting, form: Option, by_make: bool) -> str:
    """What it is; its variable and its default, where it has them."""
    shown = form.shown or form.default
    told = [setting.name] * (form.variable and by_make) + [f"default: {shown}"] * bool(shown)
    words = form.help + f" ({'; '.join(told)})" * bool(told)
    return _Help(words.replace("%", "%%"))


class _Help(str):
    """The help of an option. What it lists is looked up when it is printed: that loads all instruments."""

    __slots__ = ()

    def __mod__(self, values: Any) -> str:
        return str(listed(str(self)) % values)


def listed(words: str) -> str:
    """The help of an option with what it lists."""
    for name, names in _LISTS.items():
        if name in words:
            words = words.replace(name, names())
    return words


def _services() -> str:
    from workloads.registry import service_names  # takes longer to load than most commands run

    return ", ".join(service_names())


def _clients() -> str:
    from workloads.counted_clients import client_names

    return ", ".join(client_names())


# What the help of an option lists, as the list of options calls it.
_LISTS: dict[str, Callable[[], str]] = {
    "{instruments}": lambda: " ".join(INSTRUMENTS), "{observing}": lambda: " ".join(by_default()),
    "{services}": _services, "{clients}": _clients,
}  # fmt: skip


def collectors(text: str) -> tuple[str, ...] | None:
    """The instruments asked for, each once, in the order of their windows; None where nothing was said."""
    from ground.results.record import current_name

    asked = [current_name(name) for name in text.replace(",", " ").split()]
    unknown = [name for name in asked if name not in INSTRUMENTS]
    if unknown:
        raise RefusedError(
            f"{Setting.COLLECT.to(text)}: {unknown[0]} is not known",
            mend=Setting.COLLECT.to(f'"{" ".join(INSTRUMENTS)}", or some of them'),
        )
    return tuple(name for name in INSTRUMENTS if name in asked) if asked else None


def event_name(text: str) -> str:
    """UsageError where it is neither the name of one event, nor a group of them."""
    if _GROUP.fullmatch(text):
        return text
    if not text or any(c in text for c in " ,{}") or text.startswith("-"):
        raise UsageError(
            f"{Setting.EVENT.to(repr(text))} is not one perf event",
            means="a profile has one event and one unit; several are never mixed",
            mend=f"{Setting.EVENT.to('auto')}, or one name of `perf list`, such as {Setting.EVENT.to('cycles')}, or a "
            "group of which the first samples and the others are read with it: "
            + Setting.EVENT.to("'{cycles,instructions}'"),
        )
    return text


def _cpus(text: str) -> str:
    from ground.system.cpus import check_cpus

    return check_cpus(text)


def _users(text: str) -> list[int]:
    """The numbers in `text`; UsageError where it is no list of numbers from 1 to 1024."""
    try:
        found = [int(word) for word in text.replace(",", " ").split()]
    except ValueError:
        found = []
    if not found or min(found) < 1 or max(found) > 1024:
        raise RefusedError(
            f"{Setting.USERS.to(repr(text))} is no list of numbers from 1 to 1024", mend=Setting.USERS.to("'1 6'")
        )
    return found


_READERS: dict[str, Callable[[str], Any]] = {
    "event": event_name, "cpus": _cpus, "instruments": collectors, "users": _users,
}  # fmt: skip


def of_arm(arguments: argparse.Namespace, **changed: Any) -> argparse.Namespace:
    """The options of one arm. What watches costs a window an arm and session: perf alone, where nothing is said."""
    one = copy.copy(arguments)
    vars(one).update({"collect": arguments.collect or ("perf",), **changed})
    return one
