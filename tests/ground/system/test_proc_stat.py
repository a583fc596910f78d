"""What /proc says of a process: against a second source, and as newer kernels say it."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ground.system.proc_stat import named_fields, named_stat, stat_fields, switches

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
from collectors.activity import moment
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
