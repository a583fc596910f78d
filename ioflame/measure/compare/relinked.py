"""Arms linked anew for every session, by a command of the user's: what sessions vary by then holds the order in which
the linker puts functions, and so does every interval.

The order alone can change a time by more than a compiler's optimisation does ("Producing wrong data without doing
anything obviously wrong", ASPLOS 2009), and it changes with any change of the code.
"""

from __future__ import annotations

import random
import shlex
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

from ground.errors import MeasurementError, RefusedError, UsageError
from ground.results.comparison import COMMAND_LINE
from ground.system.process import capture
from ioflame.measure.compare.arms import PlannedArm
from workloads.build import EngineBuild
from workloads.libraries import Library

_SECONDS = 3600
_SAID = 400


@dataclass(frozen=True)
class Relinked:
    """The links of one session.

    command: of the user's; seed: of the comparison; directory: of the links; builds: linked so far, by arm
    """

    command: str
    seed: int
    session: int
    directory: Path
    builds: dict[str, EngineBuild] = field(default_factory=dict)

    def linked(self, arm: PlannedArm) -> PlannedArm:
        """The arm as linked for this session. MeasurementError where the command fails or writes no file."""
        if arm.name not in self.builds:
            self.builds[arm.name] = self._built(arm)
        return replace(arm, job=replace(arm.job, build=self.builds[arm.name]))

    def _built(self, arm: PlannedArm) -> EngineBuild:
        place = self.directory / f"s{self.session:02}-{arm.name}"
        place.mkdir(parents=True, exist_ok=True)
        out = place / _file_of(arm).name
        self._link(arm, out)
        engine = arm.job.engine
        if arm.job.build.library is None:
            return engine.inspect(out)
        return engine.inspect_library(arm.job.build.path, Library(out))

    def _link(self, arm: PlannedArm, out: Path) -> None:
        seed = random.Random(f"{self.seed} link {self.session} {arm.name}").randrange(1, 1 << 31)
        # A twin is the base once more, in an order of its own.
        given = {"IOFLAME_ARM": arm.twin_of or arm.name, "IOFLAME_SEED": str(seed), "IOFLAME_OUT": str(out)}
        argv = ["env", *(f"{name}={value}" for name, value in given.items()), "sh", "-c", self.command]
        done = capture(argv, timeout=_SECONDS)
        if done.returncode == 0 and out.is_file():
            return
        why = f"exit code {done.returncode}" if done.returncode else f"it made no {out.name}"
        raise MeasurementError(
            f"--relink: {why}; its output: {(done.text + done.errors).strip()[-_SAID:] or 'none'}",
            means=f"session {self.session} has no link of arm {arm.name}; sessions before it are kept",
            mend=f"{shlex.join(argv)}   (what was run)",
        )

    def remove(self) -> None:
        """What was measured with them is folded: names are in its profiles."""
        shutil.rmtree(self.directory, ignore_errors=True)


def _file_of(arm: PlannedArm) -> Path:
    return arm.job.build.library or arm.job.build.path


def refuse_relinking(factor: str, arms: list[PlannedArm]) -> None:
    """UsageError for arms that no command of the user's links."""
    if factor == COMMAND_LINE:
        raise RefusedError(
            "--relink: the arms are whole command lines, which name their clients themselves",
            mend="--arm NAME=CLIENT, and flags as options",
        )
    released = next((arm for arm in arms if arm.job.build.released), None)
    if released is not None:
        raise UsageError(
            f"--relink: {released.name} is a release, without its object files",
            means="where its linker put functions is a part of the difference; nothing was started",
            mend="builds of your own, or without --relink",
        )
