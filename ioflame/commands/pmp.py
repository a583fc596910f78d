"""`ioflame pmp --pid P`: where every thread of a process is, by wall clock: running, sleeping, waiting for storage.

Samples the stacks of all threads of any running process, folds them with their wall time as weight, draws a flame graph
and says who waits for which lock.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import msgspec

from collectors.pmp_plan import PmpPlan
from ground.errors import EXIT_CHECK_FAILED, EXIT_INTERRUPTED, EXIT_OK
from ground.results.files import Files
from ground.system.held_process import process_number
from ground.system.process import interruptible
from ground.text.progress import Reporter, shown_path, terminal_width
from ground.text.ranges import within
from ioflame.commands.arguments import Commands, add_options
from ioflame.instruments.pmp import analyse, draw
from ioflame.measure.alone import sample
from ioflame.present.rules_check import own_rules
from viz.tables.pmp import locks_section, pmp_section
from viz.terminal.table import section_text
from workloads.registry import DEFAULT_ENGINE, engine_names, rules_named

_ABOUT = """examples:
  ioflame pmp --pid $(pidof db_bench)                    10 seconds, every thread 10 times a second
  ioflame pmp --pid 4711 --seconds 60 --hz 49 --json     for a program to read
  ioflame pmp --pid 4711 --callgraph fp                  addresses alone: no copy of the stacks
  ioflame pmp --pid 4711 --sampler gdb --hz 1            as ever, with gdb: it stops the whole process

OVERHEAD
  stacksampler stops one thread at a time, for about 20 us (it measures and prints it); the others run on. At 10 Hz that
  is 0.02 % of a thread's time, and the sampler takes about 1 % of one CPU for 12 threads. It needs root, or
  kernel.yama.ptrace_scope=0 and the same user; kernel frames of blocked threads need root. With --callgraph dwarf
  (default) 16 KiB of each stack are copied: they hold what the program had there, keys and values too.
  gdb stops all threads at once, for tenths of a second: it refuses where a trial lasts longer than --max-pause, and is
  never ended while it holds the process.
  Samples of different threads are not of one moment: right for a profile, no proof of a deadlock.

WHAT THE PROCESS NOTICES
  A stop wakes a sleeping thread; its system call resumes. Threads in a call that a stop would end or cut short are not
  stopped: epoll_wait, io_uring_enter, io_getevents, accept, recv and send (any socket may have a timeout), a write to a
  pipe; under seccomp also those that sleep. Of them there is the kernel's side, and where they entered it. Who enters
  such a call in the moment before its stop begins it anew, unseen (x86-64; on arm64 it may return EINTR). Left over: a
  long write to a pipe or socket that is caught while it copies may return a part of its length, as after SIGSTOP.
  gdb knows none of this: each of its samples ends such calls with EINTR, as SIGSTOP does, and may kill a process under
  seccomp, which is refused without --force.

EXAMPLE OUTPUT
  360 samples of 12 threads in 3.0 s, 10 a second and thread, stacksampler, stacks copied and unwound

    state  share  thread seconds  samples
    R      49.5%           17.65      177  running, or in a run-queue wait
    S      50.5%           17.98      183  sleeping: locks, timers, network

  a stop held one thread, the others ran on: mean 14 us, p99 42 us, max 68 us, n 360
  ...
  Who waits, by the first frame that is no lock primitive
    place                                        kind  category  waiting  in lock code  samples
    rocksdb::lru_cache::LRUCacheShard::Release  mutex     other   10.49%         5.02%       55

WHAT IT LEAVES in a new directory OUT/<time>-pmp-<pid>/: pmp.folded (ns of wall time; the leaf frame is the state),
pmp.svg, pmp.json, locks.json, pmp.data (perf report and stackfold read it; as it holds stacks, for its owner alone),
pmp.samples.jsonl (state, wait channel and system call of each sample)."""


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "pmp",
        help="wall-clock stacks of every thread of a running process, and who waits for which lock",
        description=(__doc__ or "") + "\n" + _ABOUT,
    )
    add = parser.add_argument
    add("-p", "--pid", type=process_number, required=True, metavar="PID", help="the process")
    lasting, rate = within("--seconds", float, 0.1, 86_400.0), within("--hz", float, 0.01, 1000.0)
    add("--seconds", type=lasting, default=10.0, metavar="S", help="how long (default: 10)")
    add("--hz", type=rate, default=10.0, metavar="HZ", help="samples a second of each thread (default: 10)")
    add("--sampler", default="stacksampler", metavar="NAME", help="stacksampler (default) or gdb")
    add(
        "--rules",
        default=DEFAULT_ENGINE,
        metavar="RULES",
        help="category rules: rocksdb (default), or a file of your own",
    )
    pause = within("--max-pause", float, 0.0, 3_600_000.0)
    add("--max-pause", type=pause, default=250.0, metavar="MS", help="the longest pause gdb may cause (default: 250)")
    add("--force", action="store_true", help="let gdb stop the process however long it takes, under seccomp too")
    add("--json", action="store_true", help="print pmp.json and locks.json as one object instead of tables")
    add_options(parser, "pmp")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    reporter = Reporter(quiet=arguments.quiet or arguments.json)
    rules = rules_named(arguments.rules)
    if arguments.rules not in engine_names():
        own_rules(Path(arguments.rules))
    plan = PmpPlan(arguments.sampler, arguments.hz, arguments.callgraph, arguments.max_pause, arguments.force)
    with interruptible():
        directory, interrupted = sample(plan, arguments.pid, arguments.seconds, arguments.out.absolute(), reporter)
        with reporter.stage("fold the stacks and find their names"):
            pmp, locks = analyse(directory, rules)
        draw(directory, rules)
    if arguments.json:
        print(json.dumps({"pmp": msgspec.to_builtins(pmp), "locks": msgspec.to_builtins(locks)}, indent=2))
    else:
        width = terminal_width(sys.stdout)
        print(section_text([*pmp_section(pmp), *locks_section(locks, pmp)], width))
        print(f"\nflame graph: {shown_path(directory / Files.PMP_FLAMEGRAPH)}")
        print(f"stacks:      {shown_path(directory / Files.PMP_FOLDED)}")
    if interrupted:
        reporter.warn(f"interrupted after {pmp.seconds:.1f} s; what was sampled until then is above")
        return EXIT_INTERRUPTED
    if pmp.cut_short:
        reporter.warn(f"{pmp.cut_short} after {pmp.seconds:.1f} s of {arguments.seconds:g} s")
        return EXIT_CHECK_FAILED
    return EXIT_OK
