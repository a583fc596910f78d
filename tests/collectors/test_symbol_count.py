"""Which functions a given name matches, and whose calls are counted."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.attached import AttachedWindows
from collectors.symbol_count import calls_in, probes_of
from collectors.target_counters import TargetProbe
from ground.errors import UsageError
from ground.system.held_process import HeldProcess
from ground.system.process import Children
from ground.system.target import Target
from ground.text.progress import Reporter
from tests.programs import compiled
from tests.until import until

_GET = "space::Class::get"
# By the C++ ABI of Itanium: get(long), and get(int) const.
_LINKED = ["_ZN5space5Class3getEl", "_ZNK5space5Class3getEi"]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two of the same source, which are files of their own."""
    place = tmp_path_factory.mktemp("overloads")
    source = Path(__file__).with_name("overloads.cc")
    return [compiled(source, place / name, "-O2", "-Wall", "-Werror") for name in ("one", "other")]


@contextlib.contextmanager
def running(*argv: str | Path) -> Iterator[HeldProcess]:
    with subprocess.Popen(argv) as process:
        try:
            # Popen returns in the middle of the exec: for a moment after it the process has no files mapped.
            until(lambda: "r-xp" in Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8"))
            yield HeldProcess(process.pid)
        finally:
            process.kill()


@pytest.mark.long
@pytest.mark.needs("bpftrace")
def test_a_name_stands_for_all_overloads_in_every_target_and_for_no_part_of_one(programs: list[Path]) -> None:
    symbols = subprocess.run(["nm", programs[0]], capture_output=True, text=True, check=True).stdout
    assert "_ZNK5space5Class3getEi.cold" in symbols
    with running(programs[0]) as one, running(programs[1]) as other, running("sleep", "60") as another:
        probes = probes_of(_GET, [another, one, other, one])
        assert probes == [f'uprobe:{path}:"{name}"' for path in programs for name in _LINKED]
        assert probes_of("_ZN5space5Class3getEl", [one]) == probes[:1]
        with pytest.raises(UsageError, match="of 1 processes has such a function"):
            probes_of("space::Class::none", [one])


@pytest.mark.long
@pytest.mark.needs("bpftrace")
def test_calls_are_those_of_the_children_too_that_a_target_has_meanwhile(programs: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "calls.txt"
    with running(programs[0], "fork") as forking, Children() as children:
        assert calls_in(children, probes_of(_GET, [forking]), [forking.pid], 1.0, out) > 2
    assert "@watched" not in out.read_text(encoding="utf-8")


def test_one_rate_stands_for_windows_and_says_nothing_of_seconds() -> None:
    with running("sleep", "60") as process:
        probe = TargetProbe(Target([process.pid]), None, lambda _, name: name)
        windows = AttachedWindows(probe, {}, Reporter(quiet=True))
        windows.plain(0.05)
        windows.rate = 1000.0
        (window,) = windows.windows()
        assert window.counters.queries == pytest.approx(1000 * window.seconds)
        assert [one.counters.queries for one in windows.series()] == [None] * len(windows.series())
