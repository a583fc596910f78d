"""Parts of the collectors that need only this process: counters between moments, gdb's text, windows' edges."""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from collectors.counters import ProcessProbe, Snapshot, device_of
from collectors.gdb_stacks import frame_name, stacks_by_thread
from collectors.mapped_files import MappedFiles
from collectors.perf import Plan, core_kinds, plan_recording, with_dwarf
from collectors.perf_so_far import copy_so_far
from collectors.pmp import Moment, activity
from collectors.pmp_gdb import Gdb, gdb_argv
from collectors.pmp_plan import PmpPlan
from collectors.stack_pages import touch_stacks
from collectors.windows import Windows
from ground.errors import HostError, MeasurementError
from ground.results.checks import Verdict
from ground.results.files_at_paths import COPIED
from ground.results.record import HostTimes
from ground.system.held_process import HeldProcess
from ground.system.observer import NullObserver
from ground.text.progress import Reporter

HZ = os.sysconf("SC_CLK_TCK")
BEFORE = Moment(100.0, {1: (10, 5), 2: (7, 7)}, 2 * HZ, HZ, HostTimes(1000, 100, 50, 800, 50, 0))


def test_what_happened_between_two_moments_is_a_rate_of_their_time() -> None:
    host = HostTimes(1500, user=180, system=90, idle=880, iowait=50, steal=0)
    after = Moment(102.0, {1: (14, 6), 3: (2, 1)}, 5 * HZ, 2 * HZ, host)
    found = activity([(BEFORE, after)])
    # Thread 2 has ended; thread 3 is new, so all of its switches are.
    assert (found.seconds, found.switches, found.voluntary_switches) == (2.0, 8, 6)
    assert (found.user_cpus, found.system_cpus, found.host_switches) == (1.5, 0.5, 500)
    # Of 200 ticks, 80 and 40.
    assert (found.host_user, found.host_system) == (0.4, 0.2)
    # Of two turns the sums, whatever was between them.
    later = [replace(one, at=one.at + 50, user_ticks=one.user_ticks + 9 * HZ) for one in (BEFORE, after)]
    both = activity([(BEFORE, after), (later[0], later[1])])
    assert (both.seconds, both.switches, both.user_cpus, both.host_user) == (4.0, 16, 1.5, 0.4)


def test_counters_of_a_process_that_is_gone_are_no_less_than_nothing() -> None:
    gone = replace(BEFORE, at=101.0, switches={}, user_ticks=0, system_ticks=0)
    found = activity([(BEFORE, gone)])
    assert (found.switches, found.user_cpus, found.system_cpus, found.host_user) == (0, 0.0, 0.0, 0.0)


def test_gdbs_text_is_read_whatever_stands_in_it() -> None:
    text = (
        b"[New LWP 11]\nwarning: Unable to find libthread_db\n"
        b'Thread 2 (Thread 0x7f01 (LWP 11) "a;b\nThread 9 (LWP 1"):\n'
        b"#0  0x00007f in read () from /lib/x/libc.so.6\n"
        b"#1  0x00007f in ns::Class<int>::run(std::vector<int>&) const () from /lib/librocksdb.so.7\n"
        b"#2  0x00007f in ?? () from /lib/a;b.so\n#3  0x01 in ?? ()\n\n"
        b'Thread 1 (process 10 "\xff\nThread 99 (LWP 99):\n"):\n'
        b"#0  main (argc=1, argv=0x1) at main.c:3\n(More stack frames follow...)\n"
        b"Thread 3 (LWP 12):\n"
    )
    assert stacks_by_thread(text, {10, 11, 12}) == {
        11: [b"[unknown]", b"[a:b.so]", b"ns::Class<int>::run", b"read"],
        10: [b"main"],
    }
    assert stacks_by_thread(b"", {1}) == {}
    assert frame_name(b"operator() (this=0x0) at x.cc:1") == b"operator()"
    assert frame_name(b"f((anonymous namespace)::T) () from /x") == b"f"
    assert frame_name(b"(anonymous namespace)::g(int) () from /x") == b"(anonymous namespace)::g"


def test_gdb_reads_no_file_of_the_users_or_of_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collectors.pmp_gdb.tool_path", lambda *_: "/usr/bin/gdb")
    argv = gdb_argv(42)
    assert {"-nx", "-readnever"} <= set(argv) and "set auto-load no" in argv and argv[argv.index("-p") + 1] == "42"
    own = Gdb().command(PmpPlan("gdb", 2.5, budget_ms=100), 42, Path("/d"))
    assert own[-4:] == ["--pid=42", "--hz=2.5", "--budget-ms=100", "--directory=/d"]
    assert Gdb().command(PmpPlan("gdb", force=True), 42, Path("/d"))[-1] == "--force"


PLAN = Plan("cpu-clock", 999, "process", "fp", ("no hardware cycles counter here",))


def test_a_plan_with_copied_stacks_says_why_beside_the_reasons_that_it_had() -> None:
    copied = with_dwarf(PLAN, "no frame pointers")
    assert (copied.callgraph, copied.scope, copied.why) == ("dwarf", "process", (*PLAN.why, "no frame pointers"))


def test_stacks_of_a_process_that_has_ended_are_not_read() -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            touch_stacks(process.pid, 16384)
        finally:
            process.kill()
    with pytest.raises(OSError):
        touch_stacks(process.pid, 16384)


def test_cores_of_several_kinds_are_told_by_their_counters(tmp_path: Path) -> None:
    for name in ("cpu_core/cpus", "software/type", "uncore_imc_0/cpumask"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("0-7\n")
    assert core_kinds(tmp_path) == []
    (tmp_path / "cpu_atom").mkdir()
    (tmp_path / "cpu_atom" / "cpus").write_text("8-11\n")
    assert core_kinds(tmp_path) == ["cpu_atom", "cpu_core"]


def test_a_perf_that_aborts_beside_another_recording_is_told_from_one_that_may_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    aborted = "perf: util/build-id.c:147: __build_id__snprintf: Assertion `build_id->size' failed."
    monkeypatch.setattr("collectors.perf.perf_version", lambda: "6.1")
    monkeypatch.setattr("collectors.perf._recorded", lambda *_: (aborted, []))
    with pytest.raises(HostError, match=r"perf 6\.1 aborts when it records page-faults: .*build-id\.c") as caught:
        plan_recording("page-faults", 99, "fp")
    assert "--buildid-mmap" in caught.value.means and "pgrep" in caught.value.mend
    monkeypatch.setattr("collectors.perf._recorded", lambda *_: ("Permission denied", []))
    with pytest.raises(HostError, match="cannot record page-faults: Permission denied") as caught:
        plan_recording("page-faults", 99, "fp")
    assert "kernel.perf_event_paranoid is" in caught.value.means


@pytest.mark.parametrize("begun", [b"", b"PERFILE2", b"x" * 200])
def test_what_is_no_recording_of_perf_yet_is_refused(tmp_path: Path, begun: bytes) -> None:
    (tmp_path / "perf.data").write_bytes(begun)
    with pytest.raises(MeasurementError, match=f"is no recording of perf yet: it has {len(begun)} bytes"):
        copy_so_far(tmp_path / "perf.data", tmp_path / "copy")


class Counted(Windows):
    """Windows of this process, which knows its queries but at `unknown`."""

    def __init__(self, place: Path, ends_after: int = 1_000_000) -> None:
        super().__init__(Reporter(quiet=True))
        self._probe = ProcessProbe(os.getpid(), device_of(place), by_thread=False)
        # Each step is a slice: how many there are is no matter of time.
        self._slice_ns = 0
        self.left = ends_after
        self.snapshots: list[Snapshot] = []
        self.unknown: set[int] = set()

    def _step(self, at_most: float) -> bool:
        threading.Event().wait(min(at_most, 0.001))
        self.left -= 1
        return self.left > 0

    def _snapshot(self) -> Snapshot:
        self.snapshots.append(self._probe.snapshot())
        return self.snapshots[-1]

    def _finished_at(self, moment_ns: int) -> float | None:
        return None if moment_ns in self.unknown else moment_ns / 1e6

    def _roles_in(self, snapshot: Snapshot) -> Mapping[int, str]:  # noqa: ARG002
        return {7: "reader", 8: "reader", 9: "writer"}


def test_slices_of_a_window_add_up_to_it(tmp_path: Path) -> None:
    counted = Counted(tmp_path, ends_after=5)
    counted.plain(600)
    counted.left = 1_000_000
    counted.observed(NullObserver(), 0.03)
    plain, observed = counted.windows()
    assert (plain.kind, observed.kind) == ("plain", "null") and observed.seconds >= 0.03
    slices = [one for one in counted.series() if one.kind == "plain"]
    assert len(slices) == 5 and (slices[0].start_ns, slices[-1].end_ns) == (plain.start_ns, plain.end_ns)
    assert all(one.end_ns == other.start_ns for one, other in pairwise(slices))
    assert sum(one.counters.queries or 0 for one in slices) == pytest.approx(plain.counters.queries)
    assert sum(one.counters.cpu_ns for one in slices) == plain.counters.cpu_ns
    assert counted.threads_by_role() == {"reader": [7, 8], "writer": [9]}


def test_queries_of_a_window_are_not_known_where_their_count_does_not_cover_an_edge(tmp_path: Path) -> None:
    counted = Counted(tmp_path)
    counted.plain(0.01)
    counted.unknown = {counted.snapshots[-1].at_ns}
    assert [window.counters.queries for window in counted.windows()] == [None]


def test_a_window_ends_with_what_it_watches(tmp_path: Path) -> None:
    counted = Counted(tmp_path, ends_after=2)
    counted.plain(600)
    assert counted.left == 0 and len(counted.windows()) == 1


class Failing(NullObserver):
    def open(self) -> None:
        raise MeasurementError("it does not begin")


def test_what_an_observer_raises_goes_on_and_leaves_no_window(tmp_path: Path) -> None:
    counted = Counted(tmp_path)
    with pytest.raises(MeasurementError, match="it does not begin"):
        counted.observed(Failing(), 0.01)
    assert counted.windows() == [] and counted.threads_by_role() == {}


def test_of_a_deleted_file_alone_a_copy_is_kept_with_its_device_and_inode(tmp_path: Path) -> None:
    kept = MappedFiles(tmp_path / "mapped")
    program = Path(shutil.copy(sys.executable, tmp_path / "program"))
    content, file = program.read_bytes(), program.stat()
    with program.open("rb") as opened, mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ | mmap.PROT_EXEC):
        program.unlink()
        kept.keep([HeldProcess(os.getpid())])
        (line,) = (line for line in Path("/proc/self/maps").read_text().splitlines() if f" {program} (deleted)" in line)
    copy, table = tmp_path / "mapped" / str(program).lstrip("/"), tmp_path / "mapped" / COPIED
    assert {path for path in (tmp_path / "mapped").rglob("*") if path.is_file()} == {copy, table}
    assert copy.read_bytes() == content and list(kept.checks()) == []
    major, minor = (int(part, 16) for part in line.split()[3].split(":"))
    assert table.read_text().splitlines() == ["ioflame-files 1", f"{major}:{minor} {file.st_ino} - {program}"]


def test_the_map_of_a_run_time_compiler_is_copied_under_the_number_that_we_know(tmp_path: Path) -> None:
    place = Path(f"/tmp/perf-{os.getpid()}.map")
    place.write_text("1000 10 compiled\n")
    try:
        kept = MappedFiles(tmp_path / "mapped")
        kept.keep([HeldProcess(os.getpid())])
    finally:
        place.unlink()
    assert (tmp_path / "mapped" / "tmp" / place.name).read_text() == "1000 10 compiled\n"
    assert [check for check in kept.checks() if check.verdict is not Verdict.OK] == []
