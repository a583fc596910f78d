"""Counts a command of the user's, from its start to its end: what a call of one of its functions takes."""

from __future__ import annotations

import shlex
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from collectors.callgrind import counted_program, counting_command, depends_on
from folding.callgrind import counts_below, not_called
from ground.errors import RefusedError, UsageError
from ground.results.counted import Counted, CountedArm, CountRecord, CountRun, OfOperation
from ground.system.process import Children, tool_path
from ground.text.file_name import file_name
from ground.text.progress import Reporter
from ioflame import __version__
from ioflame.measure.count.conduct import failed, keep
from ioflame.measure.count.plan import PADDINGS
from workloads.registry import rules_named

_ARM = "command"
_LIBC = "libc"
# Ten to fifty times as slow as without.
_MOST_SECONDS = 4 * 3600.0


@dataclass(frozen=True)
class PlannedCommand:
    """command: as the user gave it; function: whose calls are what its figures are divided by"""

    command: Sequence[str]
    function: str
    engine: str
    valgrind: str
    program: Path
    repeats: int

    @property
    def paddings(self) -> Sequence[int]:
        return PADDINGS[: self.repeats]

    @property
    def name(self) -> str:
        """Of the function, without its scopes."""
        return self.function.rpartition("::")[2]

    @property
    def names(self) -> list[str]:
        return [self.name]

    @property
    def place(self) -> str:
        """In the name of its directory."""
        return file_name(Path(self.command[0]).name)

    def record(self) -> CountRecord:
        """Of a count that has counted nothing yet."""
        facts = depends_on(self.valgrind, self.program, _LIBC)
        created = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        # Its own build is what is compared.
        facts.pop("client")
        return CountRecord(__version__, created, self.engine, facts, list(self.paddings), [CountedArm(_ARM, "", {})])


def planned_command(command: Sequence[str], function: str, engine: str, repeats: int) -> PlannedCommand:
    """UsageError, HostError for what cannot be counted."""
    if not function:
        raise UsageError(
            "--per is not given",
            means="what a command takes is divided by the calls of one of its functions; nothing was started",
            mend=f"--per <one of its functions> -- {shlex.join(command)}",
        )
    program = shutil.which(command[0])
    if program is None:
        raise RefusedError(
            f"{command[0]} is not found, or cannot be executed", mend="the path of the program, behind --"
        )
    return PlannedCommand(command, function, engine, tool_path("valgrind", "valgrind"), Path(program), repeats)


def count_command(plan: PlannedCommand, study: CountRun, reporter: Reporter) -> None:
    """Counts it, one after the other, since they may share files. MeasurementError where it fails.

    study: with the record of the plan, which is filled
    """
    begun, record, directory = time.monotonic(), study.record, study.directory
    counted = Counted()
    about = f"a call of {plan.function}, in {shlex.join(plan.command)}"
    record.operations[plan.name] = OfOperation(about, "call", "owner", {_ARM: counted})
    record.commands[plan.name] = shlex.join(plan.command)
    rules = rules_named(plan.engine).categories
    turns = [*range(len(plan.paddings)), len(plan.paddings)]
    counts, log = directory / "counts", directory / "command.log"
    with Children() as children:
        for turn in turns:
            padding = plan.paddings[turn % len(plan.paddings)]
            counts.mkdir()
            argv = counting_command(plan.valgrind, plan.command, counts, padding)
            with reporter.stage(f"count {plan.command[0]}: {turn + 1} of {len(turns)}"):
                child = children.start(_ARM, argv, stdout=log)
                if child.wait(_MOST_SECONDS) != 0:
                    text = log.read_text(encoding="utf-8", errors="replace")
                    raise failed(f"{plan.command[0]} under valgrind", child, text, shlex.join(argv))
            folded = directory / plan.name / f"{_ARM}.folded" if turn == 0 else None
            if folded is not None:
                folded.parent.mkdir()
            every = sorted(counts.iterdir())
            found = counts_below(every, plan.function, rules, folded)
            if not found.calls:
                raise not_called(every, plan.function)
            if turn == 0 and len(every) > 1:
                record.operations[plan.name].about += f"; {_processes(found.files, every)}"
            keep(counted, found, found.calls, turn, len(plan.paddings))
            shutil.rmtree(counts)
    record.seconds = time.monotonic() - begun
    study.save()


def _processes(counted: Sequence[Path], every: Sequence[Path]) -> str:
    """Which of a command's processes are in its figures."""
    programs = Counter(map(counted_program, counted))
    named = ", ".join(f"{number} of {program}" for program, number in sorted(programs.items()))
    return f"counted in {len(counted)} of its {len(every)} processes: {named}"
