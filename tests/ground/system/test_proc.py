"""What /proc and the control groups say of processes, and of us: real processes, of our own."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ground.errors import MeasurementError, UsageError
from ground.system.cpus import check_cpus, held_on
from ground.system.descendants import Pulse, ancestors, descendants, having_open, is_below
from ground.system.groups import container_group, groups_of, named_group
from ground.system.limits import hierarchy_of, own_name, remove_abandoned
from ground.system.own_cpu import own_cpu_seconds
from ground.system.proc_stat import named_fields, named_stat, stat_fields, switches
from ground.system.process import Children
from ground.system.repeated_command import RepeatedCommand
from tests.programs import compiled
from tests.until import until

# Names itself as somebody may who wants to be misread, and starts a child, which it tells of.
_NAMED = """
import ctypes, subprocess, sys
ctypes.CDLL(None).prctl(15, b") R 1 2 (", 0, 0, 0)
child = subprocess.Popen(["sleep", "600"])
print(child.pid, flush=True)
sys.stdin.read()
child.kill()
"""


@pytest.fixture
def family() -> Iterator[tuple[int, int]]:
    """The numbers of a process, whose name is hostile, and of its child."""
    with subprocess.Popen(
        [sys.executable, "-c", _NAMED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline())
        process.communicate("")


def test_fields_of_a_process_are_not_read_from_its_name(family: tuple[int, int]) -> None:
    parent, child = family
    fields = stat_fields(f"/proc/{parent}/stat")
    assert fields[0] in (b"S", b"R") and int(fields[1]) == os.getpid()
    assert int(stat_fields(f"/proc/{child}/stat")[1]) == parent


def test_what_a_process_started_is_below_it_and_it_is_above(family: tuple[int, int]) -> None:
    parent, child = family
    assert descendants([parent]) == [parent, child] and {parent, child} <= set(descendants([os.getpid()]))
    assert list(ancestors(child))[:3] == [child, parent, os.getpid()]
    assert is_below(child, os.getpid()) and not is_below(parent, child)
    with subprocess.Popen(["true"]) as gone:
        pass
    assert descendants([gone.pid]) == [gone.pid] and not is_below(gone.pid, os.getpid())


def test_who_has_a_file_open_is_told_by_the_file_and_not_by_its_name(tmp_path: Path, family: tuple[int, int]) -> None:
    file, link = tmp_path / "open", tmp_path / "link"
    with file.open("wb"):
        link.hardlink_to(file)
        assert having_open(link, [os.getpid(), *family]) == [os.getpid()]
    assert having_open(link, [os.getpid()]) == [] and having_open(tmp_path / "none", [os.getpid()]) == []


def test_cpu_of_what_we_started_is_ours() -> None:
    before = own_cpu_seconds()
    done = subprocess.run(
        [sys.executable, "-c", "import time\nwhile time.process_time() < 0.05: pass"], check=True, capture_output=True
    )
    assert done.returncode == 0 and own_cpu_seconds() - before >= 0.05


def test_a_group_is_found_by_its_path_and_a_container_by_its_id_alone() -> None:
    groups = list(groups_of(os.getpid()))
    if not groups:
        pytest.skip("no control group holds us here")
    assert all((group / "cgroup.procs").exists() for group in groups)
    assert named_group(str(groups[0])) == groups[0]
    with pytest.raises(UsageError, match="no control group of that name holds a process"):
        named_group("ioflame-no-such.service")
    with pytest.raises(UsageError, match="is no id: 12 to 64 hexadecimal digits"):
        container_group("web")
    with pytest.raises(UsageError, match="--container 0123456789ab"):
        container_group("0123456789ab")


def test_groups_of_ours_go_once_their_process_is_gone(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    names = [own_name(), f"ioflame-{gone.pid}", "ioflame-other", "others-1"]
    for name in names:
        (tmp_path / name).mkdir()
    remove_abandoned(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[:1] + names[2:])


def test_our_group_lies_in_its_hierarchy() -> None:
    found = hierarchy_of("cpu")
    if found is not None:
        assert found.own.is_dir() and found.own.is_relative_to(found.mount)
    assert hierarchy_of("ioflame-no-such-controller") is None


def test_a_command_is_run_again_by_one_shell(children: Children) -> None:
    command = RepeatedCommand(children, "count", "echo $PPID; echo words >&2; exit 3")
    first, second = command.run(60), command.run(60)
    assert first.stdout == second.stdout and int(first.stdout) > 1
    assert (second.returncode, second.stderr) == (3, b"words\n")


@pytest.mark.parametrize(
    ("command", "seconds", "says"),
    [("sleep 600", 0.1, "did not end within 0 s"), ("yes", 60, "printed more than 64 KiB")],
)
def test_a_command_that_goes_on_is_stopped_with_what_it_started(
    children: Children, command: str, seconds: float, says: str
) -> None:
    with pytest.raises(MeasurementError, match=says):
        RepeatedCommand(children, "endless", command).run(seconds)
    assert not [pid for pid in descendants([os.getpid()]) if b"sleep\x00600" in cmdline(pid)]


def cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


STATUS = "/proc/thread-self/status"


def test_context_switches_are_those_that_getrusage_counts() -> None:
    for _ in range(50):
        os.sched_yield()
    before = resource.getrusage(resource.RUSAGE_THREAD)
    voluntary, involuntary = switches(STATUS)
    after = resource.getrusage(resource.RUSAGE_THREAD)
    assert before.ru_nvcsw <= voluntary <= after.ru_nvcsw
    assert before.ru_nivcsw <= involuntary <= after.ru_nivcsw


def test_a_thread_may_have_any_name() -> None:
    seen = []

    def look() -> None:
        Path("/proc/thread-self/comm").write_bytes(b"a) R (b:\n\xff")
        seen.extend([named_stat("/proc/thread-self/stat"), named_fields(STATUS)["Tgid"]])

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    (name, fields), pid = seen
    assert name == "a) R (b:\n\ufffd" and fields[0] == b"R" and pid == str(os.getpid())


def test_one_that_is_gone_is_an_error() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    for read in (stat_fields, named_fields):
        with pytest.raises(OSError, match="No such file"):
            read(f"/proc/{child.pid}/{'stat' if read is stat_fields else 'status'}")


_PROBE = """
import os, sys
from pathlib import Path
from collectors.pmp import moment
from collectors.counters import ProcessProbe, device_of
from ground.system.held_process import HeldProcess
pid = int(sys.argv[1])
[task] = ProcessProbe(pid, device_of(Path(sys.argv[2]))).snapshot().tasks.values()
assert (task.voluntary, task.involuntary) == (4394, 33193), task
assert moment(HeldProcess(pid)).switches == {pid: (4394, 33193)}
"""


@pytest.mark.needs("unshare")
def test_kernels_for_shadow_stacks_have_two_more_lines_below_the_switches(tmp_path: Path) -> None:
    """Linux 6.6 with CONFIG_X86_USER_SHADOW_STACK, as distributions have it."""
    more = "x86_Thread_features:\t\nx86_Thread_features_locked:\t\n"
    with subprocess.Popen(["sleep", "infinity"]) as child:
        status = Path(f"/proc/{child.pid}/status").read_text(encoding="utf-8")
        first = status[: status.index("voluntary_ctxt_switches")]
        shown = tmp_path / "status"
        shown.write_text(f"{first}voluntary_ctxt_switches:\t4394\nnonvoluntary_ctxt_switches:\t33193\n{more}")
        place = f"/proc/{child.pid}/task/{child.pid}/status"
        script = f'mount --bind "{shown}" {place} && exec "$@"'
        argv = [sys.executable, "-c", _PROBE, str(child.pid), str(tmp_path)]
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", *argv], check=False, stderr=subprocess.PIPE)
        child.kill()
    assert done.returncode == 0, done.stderr.decode()


SAY = "import os; print(os.getpid(), sorted(os.sched_getaffinity(0)))"


def test_a_program_runs_where_it_is_held_with_the_pid_that_was_started() -> None:
    cpu = max(os.sched_getaffinity(0))
    argv = held_on(check_cpus(str(cpu)), [sys.executable, "-c", SAY])
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as child:
        out, _ = child.communicate()
    assert out == f"{child.pid} [{cpu}]\n"


def test_without_a_list_the_command_line_stays() -> None:
    assert held_on(None, ["db_bench", "--threads=1"]) == ["db_bench", "--threads=1"]


@pytest.mark.parametrize("form", ["{0}", "{0}-{0}", "{0},{0}"])
def test_lists_are_taken_as_taskset_takes_them(form: str) -> None:
    text = form.format(min(os.sched_getaffinity(0)))
    assert check_cpus(text) == text
    subprocess.run(held_on(text, ["true"]), check=True)


def test_a_process_has_a_pulse_while_one_below_it_works_and_none_while_that_is_stopped() -> None:
    burns = "import os\nprint(os.getpid(), flush=True)\nwhile True: pass"
    # The shell itself only waits.
    with subprocess.Popen(["sh", "-c", f"{sys.executable} -c '{burns}'; :"], stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        burner = int(shell.stdout.readline())
        pulse = Pulse(shell.pid)
        assert pulse.quiet_seconds() == 0
        until(lambda: pulse.quiet_seconds() == 0, shell)
        os.kill(burner, signal.SIGSTOP)
        until(lambda: pulse.quiet_seconds() > 0.01, shell)
        os.kill(burner, signal.SIGCONT)
        until(lambda: pulse.quiet_seconds() == 0, shell)
        os.kill(burner, signal.SIGKILL)


def test_a_process_that_waits_within_the_kernel_has_a_pulse(tmp_path: Path) -> None:
    """As whoever takes BPF programs off their traps: on a busy host it used no CPU for 10 s, and was killed."""
    waits = compiled("#include <unistd.h>\nint main(void) { return vfork() ? 0 : pause(); }", tmp_path / "waits")
    with subprocess.Popen([waits], start_new_session=True) as process:
        try:
            until(lambda: stat_fields(f"/proc/{process.pid}/stat")[0] == b"D", process)
            pulse = Pulse(process.pid)
            assert [pulse.quiet_seconds() for _ in range(10)] == [0.0] * 10
        finally:
            os.killpg(process.pid, signal.SIGKILL)
