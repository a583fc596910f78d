"""Which functions a name matches, and whose calls are counted: those of the target; nobody else has a probe."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from ebpf.calls import calls_in, functions_of
from ebpf.observer import CoreObserver
from ground.errors import MeasurementError, UsageError
from ground.system.process import Children
from tests.ebpf.windows import OrderedProgram, observed
from tests.programs import built, compiled
from tests.until import until

pytestmark = [pytest.mark.long, pytest.mark.needs("co-re")]

_GET = "space::Class::get"
# By the C++ ABI of Itanium: get(long), and get(int) const.
_LINKED = ["_ZN5space5Class3getEl", "_ZNK5space5Class3getEi"]
_CALLS = 1000


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two of the same source, which are files of their own."""
    place = tmp_path_factory.mktemp("overloads")
    source = Path(__file__).with_name("overloads.cc")
    return [compiled(source, place / name, "-O2", "-Wall", "-Werror") for name in ("one", "other")]


@contextlib.contextmanager
def running(*argv: str | Path) -> Iterator[int]:
    with subprocess.Popen(argv) as process:
        try:
            # Popen returns in the middle of the exec: for a moment after it the process has no files mapped.
            until(lambda: "r-xp" in Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8"))
            yield process.pid
        finally:
            process.kill()


def test_a_name_stands_for_all_overloads_in_every_target_and_for_no_part_of_one(programs: list[Path]) -> None:
    symbols = subprocess.run(["nm", programs[0]], capture_output=True, text=True, check=True).stdout
    assert "_ZNK5space5Class3getEi.cold" in symbols
    with running(programs[0]) as one, running(programs[1]) as other, running("sleep", "60") as another:
        assert functions_of(_GET, [another, one, other, one]) == [f"{p}:{name}" for p in programs for name in _LINKED]
        assert functions_of("_ZN5space5Class3getEl", [one]) == [f"{programs[0]}:_ZN5space5Class3getEl"]
        with pytest.raises(UsageError, match="of 1 processes has such a function"):
            functions_of("space::Class::none", [one])


def test_calls_in_a_process_that_starts_meanwhile_are_not_counted_and_it_lives(
    programs: list[Path], tmp_path: Path
) -> None:
    """It inherits the memory with the probe, which the kernel takes out where it is met first."""
    with running(programs[0], "fork") as forking, Children() as children:
        with pytest.raises(MeasurementError, match=f"{_GET} was not called") as caught:
            calls_in(children, _GET, [forking], 0.2, tmp_path / "calls.json")
        assert "started meanwhile" in caught.value.means
        assert subprocess.run(["ps", "-o", "stat=", "-p", str(forking)], capture_output=True, check=True).stdout


def test_calls_are_those_of_the_target_and_no_other_process_of_the_file_has_a_probe(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """A probe in all that map a file ended what translates its own code, such as valgrind, with SIGTRAP."""
    binary, out = built(tmp_path_factory, Path(__file__).with_name("leaver.cc"), "-O2"), tmp_path / "calls.json"
    target, other = OrderedProgram(binary, "throws"), OrderedProgram(binary, "throws")
    seen: list[int] = []

    def load() -> None:
        seen.extend(_changed(one.pid, binary) for one in (target, other))
        for one in (target, other):
            one.query(str(_CALLS))

    try:
        words = ["--function=store::get", f"--pid={target.pid}"]
        observed(lambda children: CoreObserver("calls", "calls", children, words, out), load, target)
    finally:
        target.kill()
        other.kill()
    # An instruction of the target's is a breakpoint, and none of the other's.
    assert seen == [1, 0]
    assert msgspec.json.decode(out.read_bytes())["calls"] == _CALLS


def _changed(pid: int, binary: Path) -> int:
    """Bytes of the code of a process that are not the file's."""
    maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines()
    (code,) = [line.split() for line in maps if line.endswith(str(binary)) and "r-xp" in line]
    (begin, end), offset = (int(edge, 16) for edge in code[0].split("-")), int(code[2], 16)
    with Path(f"/proc/{pid}/mem").open("rb") as memory:
        memory.seek(begin)
        there = memory.read(end - begin)
    return sum(one != other for one, other in zip(there, binary.read_bytes()[offset:], strict=False))
