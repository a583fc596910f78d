"""A run that is packed here and analysed where nothing of what it mapped lies."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from folding.symbol_cache import CACHE, keep_symbols
from ground.results.categories import read_categories
from ground.results.files import Files
from ground.results.profile import read_profile
from ground.results.run import open_run
from ground.system.elf import build_id
from tests.conftest import Ioflame
from tests.e2e.commands import attached, measured, service
from tests.ioflame.asked import asked, refused
from tests.programs import FRAMES, compiled
from tests.until import until

_SECRET = "what only the program is to know"
_SOURCE = f"""
#include <stdio.h>
__attribute__((noinline)) int function_of_it(int n) {{ return n * 3 + puts("{_SECRET}"); }}
int main(int argc, char** argv) {{ return function_of_it(argc); }}
"""
_TURN = """
static volatile unsigned sink;
__attribute__((noinline)) void WORK(void) { for (int i = 0; i < 1 << 16; i++) sink = sink * 31 + i; }
int main(void) { for (;;) { WORK(); sink = sink + 1; } }
"""


def analysed_elsewhere(ioflame: Ioflame, packed: Path, place: Path, *lies: str) -> Path:
    """The run of an archive that was brought to `place`, where by these commands something else lies at its paths."""
    place.mkdir()
    shutil.copy(packed, place)
    there = ("unshare", "--mount", "sh", "-c", "; ".join([*lies, 'exec "$@"']), "sh")
    code, _, err = ioflame.run("analyse", place / packed.name, "-q", prefix=there)
    assert code in (0, 1), err
    (run,) = (path for path in place.iterdir() if path.is_dir())
    return run


@pytest.mark.long
@pytest.mark.needs("perf", "db_bench", "co-re", "unshare")
def test_it_comes_to_the_same_again_and_on_a_machine_without_its_files(
    ioflame: Ioflame, capsys: pytest.CaptureFixture[str], short: list[str], tmp_path: Path
) -> None:
    done = measured(tmp_path / "runs", *short, "--collect=perf offcpu pmp")
    here, checks = done.run, done.record.checks
    names = (Files.FOLDED, Files.CATEGORIES, Files.FLAMEGRAPH, Files.SUMMARY, Files.WALL_CLOCK, Files.LOCKS)
    kept = {name: here.path(name).read_bytes() for name in names}
    raw = here.path(Files.PERF_DATA).stat().st_mtime_ns
    here.path(Files.FOLDED).unlink()
    here.path(Files.FLAMEGRAPH).unlink()
    code, out, err = asked(capsys, "analyse", "-v", here.directory)
    assert code == done.code and here.path(Files.SUMMARY).read_text().strip() in out, err
    assert {name: here.path(name).read_bytes() for name in kept} == kept
    assert here.path(Files.PERF_DATA).stat().st_mtime_ns == raw
    again = open_run(here.directory).record
    assert (again.missing, again.checks) == ([], checks)

    packed, elsewhere = tmp_path / "run.tar.xz", tmp_path / "elsewhere"
    code, out, err = asked(capsys, "pack", here.directory, "-o", packed)
    assert code == 0 and "librocksdb.so" in out, out + err
    engine = [one for one in read_profile(here.path(Files.PROFILE)).objects if "db_bench" in one or "rocksdb" in one]
    assert len(engine) > 1
    hidden = [f"mount --bind /dev/null {name}" for name in engine]
    nothing = ("mount -t tmpfs none /usr/lib/debug", *hidden, "export HOME=/nonexistent")
    run = analysed_elsewhere(ioflame, packed, elsewhere, *nothing)
    assert (run / Files.FOLDED).read_bytes() == kept[Files.FOLDED]
    assert read_categories(run).rows == read_categories(here.directory).rows
    assert "is there already" in refused(capsys, "analyse", elsewhere / packed.name)


def test_what_is_kept_of_a_program_has_its_tables_and_not_what_it_computes_with(tmp_path: Path) -> None:
    program = compiled(_SOURCE, tmp_path / "program", *FRAMES, "-Wl,--build-id")
    (kept,) = keep_symbols([str(program)], tmp_path / "mapped", tmp_path / "kept")
    assert kept.held == "symbols"
    (copy,) = (tmp_path / "kept").rglob("elf")

    def shown(*words: str | Path) -> str:
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    assert _SECRET.encode() in program.read_bytes() and _SECRET.encode() not in copy.read_bytes()
    for table in ("--syms", "--debug-dump=frames", "--notes", "--segments"):
        assert shown("readelf", table, "-W", copy) == shown("readelf", table, "-W", program)
    (code,) = (line for line in shown("objdump", "-d", "-j", ".text", "--no-show-raw-insn", copy).splitlines()[-1:])
    assert code.strip() == "..."


def test_device_inode_and_build_id_of_each_path_are_kept_and_files_without_one_by_their_paths(tmp_path: Path) -> None:
    numbered = compiled(_SOURCE, tmp_path / "a program", *FRAMES, "-Wl,--build-id")
    bare = compiled(_SOURCE, tmp_path / "bare", *FRAMES, "-Wl,--build-id=none")
    text = tmp_path / "text"
    text.write_text(_SECRET)
    mapped, kept = tmp_path / "mapped", tmp_path / "kept"
    gone = str(tmp_path / "gone (deleted)")
    held = {one.path: one.held for one in keep_symbols([*map(str, (numbered, bare, text)), gone], mapped, kept)}
    assert [held[str(path)] for path in (numbered, bare)] == ["symbols", "symbols"]
    assert "no ELF file" in held[str(text)] and "No such file" in held[gone]

    def line(path: Path, number: str) -> str:
        file = path.stat()
        return f"{os.major(file.st_dev)}:{os.minor(file.st_dev)} {file.st_ino} {number} {path}"

    first, *lines = (kept / CACHE / "packed-files").read_text(encoding="utf-8").splitlines()
    assert first == "ioflame-files 1"
    assert lines == [line(numbered, build_id(numbered.read_bytes())), line(bare, "-"), line(text, "-")]
    copy = kept / str(bare).lstrip("/")
    assert _SECRET.encode() not in copy.read_bytes() and b"function_of_it" in copy.read_bytes()
    assert not (kept / str(text).lstrip("/")).exists()
    # A packed run is packed again: what lies at its paths here is another machine's.
    assert keep_symbols([str(numbered)], kept, tmp_path / "again") == []
    assert not (tmp_path / "again").exists()


@pytest.mark.long
@pytest.mark.needs("perf", "unshare")
def test_what_is_recorded_alone_is_analysed_elsewhere(ioflame: Ioflame, tmp_path: Path) -> None:
    program, out = tmp_path / "turner", tmp_path / "runs"
    compiled(_TURN, program, *FRAMES, "-DWORK=work_of_it", "-Wl,--build-id")
    with service([program]) as running:
        done = attached(out, [running.pid], "--seconds=18.5", "--freq=199", "--collect=perf", "--record-only")
        # In turns, and nothing of them is folded here.
        assert "step 1 of 1, " in done.err and "First look" not in done.err
    here, (packed,) = done.run, out.glob("*.tar.xz")
    assert done.code == 0 and f"there:   ioflame analyse {packed.name}" in done.out
    # Nothing folded, judged or drew on this host.
    assert here.record.checks == [] and here.record.metrics == {}
    assert {Path(one.argv[0]).name for one in here.record.commands} == {"perf"}
    assert not any("report" in one.argv for one in here.record.commands)
    assert not [name for name in (Files.PROFILE, Files.FOLDED, Files.REPORT) if here.path(name).exists()]
    assert f"symbols of {program}" in done.out
    run = analysed_elsewhere(ioflame, packed, tmp_path / "elsewhere", f"mount --bind /dev/null {program}")
    assert "work_of_it" in (run / Files.FOLDED).read_text()


# perf distinguishes files of one path by their inodes, which are other files' or nobody's on another machine.
@pytest.mark.long
@pytest.mark.needs("perf", "unshare")
def test_of_files_of_one_path_the_same_one_has_names_elsewhere(
    ioflame: Ioflame, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Pairs of a program at a path and another one that a container has there; either is seen first."""
    pairs = [("sha1", "at path"), ("sha1", "contained"), ("none", "at path")]
    seen: list[tuple[Path, Path, dict[str, int]]] = []
    with contextlib.ExitStack() as around:
        pids = []
        for number, (ids, first) in enumerate(pairs):
            place, other = tmp_path / f"turn{number}", tmp_path / f"other{number}"
            for name, program in (("work_here", place), ("work_there", other)):
                compiled(_TURN, program, *FRAMES, f"-DWORK={name}", f"-Wl,--build-id={ids}")
            bound = f"mount --bind {other} {place}; exec {place}"
            at_path = around.enter_context(service([place]))
            contained = around.enter_context(service(["unshare", "--mount", "sh", "-c", bound]))
            until(lambda: Path(f"/proc/{contained.pid}/exe").readlink().name == place.name, contained)  # noqa: B023
            seen.append((place, other, {"at path": at_path.pid, "contained": contained.pid}))
            pids += sorted((at_path.pid, contained.pid), key=lambda pid: pid != seen[-1][2][first])
        here = attached(tmp_path / "runs", pids, "--seconds=12", "--freq=199", "--collect=perf").run
    leaves: dict[int, set[str]] = {pid: set() for pid in pids}
    for stack in read_profile(here.path(Files.PROFILE)).each_stack():
        if stack.tid in leaves:
            leaves[stack.tid].add(stack.frames[-1])
    for place, _, pair in seen:
        own = [leaves[pair[who]] & {"work_here", "work_there", f"[{place.name}]"} for who in ("at path", "contained")]
        # A copy was made of the other one where that was seen first.
        assert own in ([{"work_here"}, {f"[{place.name}]"}], [{f"[{place.name}]"}, {"work_there"}]), leaves
    packed = tmp_path / "run.tar.xz"
    code, _, err = asked(capsys, "pack", here.directory, "-o", packed)
    assert code == 0, err
    # At the paths there: nothing that is a program, or the very files that have no names here.
    for what in ("null", "other"):
        lies = [f"mount --bind {'/dev/null' if what == 'null' else other} {place}" for place, other, _ in seen]
        run = analysed_elsewhere(ioflame, packed, tmp_path / f"beside-{what}", *lies)
        assert (run / Files.FOLDED).read_bytes() == here.path(Files.FOLDED).read_bytes(), what
        assert read_categories(run).rows == read_categories(here.directory).rows
