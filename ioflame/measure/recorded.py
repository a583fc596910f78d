"""What was started for a run, and why it ended, kept in its record."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from ground.errors import IoflameError
from ground.results.record import Command
from ground.results.run import Run
from ground.system.process import Child, Children


@contextlib.contextmanager
def recorded(run: Run, children: Children) -> Iterator[Children]:
    """Stops the children at the end; after an exception puts into the record what was started, and why it ended."""
    try:
        with children:
            yield children
    except (KeyboardInterrupt, IoflameError) as error:
        why = error.what.splitlines()[0] if isinstance(error, IoflameError) else "interrupted"
        run.record.commands = commands_of(children)
        run.record.missing = [f"{what} ({why})" for what in run.record.missing]
        run.save()
        raise


def commands_of(children: Iterable[Child]) -> list[Command]:
    return [Command(c.name, c.argv, c.pid, c.started, c.ended, c.describe_end()) for c in children]
