"""Which arms cannot be linked anew, and what is said where a command makes no link."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from ground.errors import MeasurementError, UsageError
from ground.results.comparison import BUILD, COMMAND_LINE
from ground.results.record import RunRecord
from ioflame.measure.compare.arms import PlannedArm
from ioflame.measure.compare.relinked import Relinked, refuse_relinking
from ioflame.measure.job import Job


def arm(name: str, *, released: bool = False) -> PlannedArm:
    build = SimpleNamespace(library=Path(f"/builds/{name}/engine.so"), released={"origin": "1"} if released else {})
    return PlannedArm(name, name, cast(Job, SimpleNamespace(build=build)), {}, cast(RunRecord, None))


@dataclass
class _Job:
    """As much of a job as linking takes: an engine that counts what it inspects."""

    build: SimpleNamespace
    inspected: list[Path] = field(default_factory=list)

    @property
    def engine(self) -> _Job:
        return self

    def inspect(self, binary: Path) -> SimpleNamespace:
        self.inspected.append(binary)
        return SimpleNamespace(path=binary, library=None)


def test_a_session_links_and_inspects_an_arm_once_however_many_processes_it_has(tmp_path: Path) -> None:
    job = _Job(SimpleNamespace(path=Path("/builds/client"), library=None))
    arms = [PlannedArm(name, name, cast(Job, job), {}, cast(RunRecord, None)) for name in ("a", "b")]
    linked_by = 'echo "$IOFLAME_ARM" >> "$(dirname "$(dirname "$IOFLAME_OUT")")/linked"; touch "$IOFLAME_OUT"'
    links = Relinked(linked_by, 7, 2, tmp_path)
    builds = [links.linked(one).job.build.path for one in (*arms, *arms)]
    assert builds == 2 * [tmp_path / "s02-a" / "client", tmp_path / "s02-b" / "client"]
    assert job.inspected == builds[:2] and (tmp_path / "linked").read_text().split() == ["a", "b"]


def test_command_lines_and_releases_are_refused() -> None:
    refuse_relinking(BUILD, [arm("a"), arm("b")])
    with pytest.raises(UsageError, match="whole command lines"):
        refuse_relinking(COMMAND_LINE, [arm("a")])
    with pytest.raises(UsageError, match="b is a release, without its object files") as refused:
        refuse_relinking(BUILD, [arm("a"), arm("b", released=True)])
    assert "a part of the difference" in (refused.value.means or "")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("echo no objects; exit 3", "exit code 3; its output: no objects"),
        ("true", "it made no engine.so; its output: none"),
    ],
)
def test_a_command_that_makes_no_link_is_told_with_what_was_run(tmp_path: Path, command: str, why: str) -> None:
    links = Relinked(command, 7, 2, tmp_path / "links")
    with pytest.raises(MeasurementError, match=f"--relink: {why}") as failed:
        links.linked(arm("a"))
    assert failed.value.means == "session 2 has no link of arm a; sessions before it are kept"
    out = tmp_path / "links" / "s02-a" / "engine.so"
    assert failed.value.mend.startswith("env IOFLAME_ARM=a IOFLAME_SEED=")
    assert f"IOFLAME_OUT={out} sh -c" in failed.value.mend
    links.remove()
    assert not (tmp_path / "links").exists()
