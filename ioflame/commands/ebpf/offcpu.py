"""`ioflame ebpf offcpu`: where the threads of a process wait."""

from __future__ import annotations

import argparse
from pathlib import Path

from ebpf.offcpu import off_cpu_observer
from ground.errors import UsageError
from ground.results.files import Files
from ground.results.off_cpu import read_off_cpu
from ground.system.observer import Observer
from ground.system.process import Children
from ioflame.commands.ebpf.program import EbpfProgram
from ioflame.stages.off_cpu import analyse_off_cpu
from ioflame.stages.shown import Shown
from viz.terminal.off_cpu import off_cpu_table, stack_list, wall_clock_table
from workloads.registry import DEFAULT_ENGINE, rules_named

__all__ = ("PROGRAM", "one_pid")

_HOTTEST = 8

_OVERHEAD = """
Two small programs run at each context switch of the machine and at each wake-up; for threads of the process they walk
the kernel and the user stack at switch-out. --waker walks the waker's, too.
"""

_EXAMPLE = """
ioflame ebpf offcpu --pid 17919 --seconds 3 --dir waits
(db_bench readrandom, 4 threads, O_DIRECT, on a busy VM of 2 CPUs)

Where the threads wait (off-CPU; ms; 4 threads, 3.0 s)
                            ms  % of time           n     mean us
on-CPU               1,788.775      14.89           -           -
io                   7,144.424      59.47      78,100        91.5
lock                     1.041       0.01          50        20.8
woken                3,066.457      25.52      78,145        39.2
preempted               12.859       0.11         274        46.9
all                 12,013.556     100.00
left out: 4 idle threads (next to nothing to do; 12.014 s)

Wall clock by category (12.0 s of 4 threads, idle threads left out)
                                    ms        %
on-CPU                       1,788.775    14.89
io                           7,144.424    59.47
  libc+k                     7,144.424    59.47
lock                             1.041     0.01
  other                          0.505     0.00
  bloom                          0.250     0.00
  LRU                            0.225     0.00
  BSI                            0.061     0.00
woken                        3,066.457    25.52
  libc+k                     3,065.288    25.52
  other                          0.860     0.01
  LRU                            0.160     0.00
  bloom                          0.124     0.00
  BSI                            0.026     0.00
preempted                       12.859     0.11
  ...
all                         12,013.556   100.00

left out: 4 idle threads (next to nothing to do; 12.014 s)
on-CPU is switch-in to switch-out; schedstat says 2,055.462 ms (+14.9 %)
  it counts a thread woken on an idle CPU as running before it is switched in

     ok  on-CPU + off-CPU  100.00% of 24.027 s in 8 threads
"""


def one_pid(arguments: argparse.Namespace) -> int:
    """The one process; UsageError for several, or with --children: threads are what is told apart here."""
    pids: list[int] = arguments.pid
    if len(pids) != 1 or arguments.children:
        raise UsageError(
            f"{arguments.program.name} looks at one process at a time",
            means="each process has a time of its own to be accounted for",
            mend=f"--pid {pids[0]} alone",
        )
    return pids[0]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--waker", action="store_true", help="take the stack of whoever wakes a thread, too")
    parser.add_argument(
        "--dir",
        type=Path,
        metavar="DIR",
        help="keep recording, folded stacks, flame graph and wall clock in DIR, which must be new or empty",
    )
    parser.add_argument("--map-entries", type=int, help=argparse.SUPPRESS)


def _observer(arguments: argparse.Namespace, children: Children, out: Path) -> Observer:
    directory: Path = arguments.dir.resolve() if arguments.dir is not None else out.parent
    if arguments.dir is not None:
        _make_empty(directory)
    recording = directory / Files.OFF_CPU_DATA
    pid = one_pid(arguments)
    return off_cpu_observer(children, pid, out, recording, waker=arguments.waker, map_entries=arguments.map_entries)


def _make_empty(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise UsageError(f"--dir {directory} is not empty", means="nothing is overwritten", mend="another name")
    except OSError as error:
        raise UsageError(f"--dir {directory}: {error.strerror}") from None


def _show(path: Path) -> Shown:
    off = read_off_cpu(path)
    assert off.recording is not None
    recording = Path(off.recording)
    clock, stacks = analyse_off_cpu(
        recording, off, rules_named(DEFAULT_ENGINE).categories, title=f"off-CPU time of pid {off.pid}"
    )
    busy = {thread.tid for thread in off.threads if not thread.is_idle}
    text = [
        off_cpu_table(off),
        wall_clock_table(clock),
        "longest waits of threads that are not idle:",
        stack_list([stack for stack in stacks if stack.tid in busy], _HOTTEST),
    ]
    if recording.parent != path.parent:
        kept = (Files.OFF_CPU_FLAMEGRAPH, Files.OFF_CPU_FOLDED, Files.OFF_CPU_DATA, Files.WALL_CLOCK)
        text.append(f"in {recording.parent}: {', '.join(name for name in kept if (recording.parent / name).exists())}")
    return Shown("\n".join(text), list(off.checks()))


PROGRAM = EbpfProgram(
    name="offcpu",
    about="where the threads of a process wait, by stack: storage, locks, conditions, joins, the run queue",
    overhead=_OVERHEAD,
    example=_EXAMPLE,
    add_arguments=_add_arguments,
    observer=_observer,
    show=_show,
)
