"""`writes`: where the time of a write goes, by its stages, and in the queue of writers by those of its leaders."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from ebpf.writes import WRITE_DEPTHS, WritesRequest, write_checks, writes_observer
from ground.results.checks import Check
from ground.results.files import Files
from ground.results.jobs import RunJobs, read_run_jobs
from ground.results.run import Run
from ground.results.write_ladder import StallCause, WriteLadder, read_write_ladder
from ground.system.observer import Observer
from ground.system.process import Children
from ground.text.tsv import Row
from ioflame.analysis.write_stalls import stall_causes
from ioflame.instruments.instrument import Alone, Instrument, Part, Tables, Watched
from ioflame.instruments.offcpu import one_pid
from viz.page.run_view import Observed, Panel
from viz.terminal.writes import writes_text
from workloads.registry import Rules

__all__ = ("INSTRUMENT",)

_OVERHEAD = """
Each write is trapped at its entry and its return, and at those of the functions that begin its stages: 7 functions of a
leader, 4 of a follower, about 1 us each with the programs. What that takes of a write and of a CPU is predicted from a
second before the window. Above a fifth of a write, or 5 % of a CPU, only the queue, stalls and the log's system calls
are told apart (2 functions); where even these take more than 5 % of a CPU it is refused unless --force says otherwise.
"""

_EXAMPLE = """
ioflame ebpf writes --pid 15801 --seconds 3 --force
(db_bench fillrandom, 4 threads, --sync=1 --enable_pipelined_write=false, on a busy VM of 2 CPUs)

Writes (us; process 15801, 3.0 s, 4 threads, all stages)
a write takes 1,048.5 us on average: log sync: wake-up 61.5 %, log sync: device 8.0 %, wait for the group 7.6 %
  (a stage is its own, or its leader's while it waits)
11,403 writes, 11,403 with sync, 0 without log
2.58 writes a group on average, n 4,413 (1: 18.4 %, 2: 24.8 %, 3: 36.8 %, 4: 20.0 %)

  us a write                       leaders  followers     all    share       n  longest
  before the queue                    1.62       1.57    1.59    0.2 %  11,403      508
  queue of writers                  522.67     846.58  721.22   68.8 %  11,403    98786
    leader: prepare                   0.01       3.49    2.15    0.2 %   7,004     4239
    leader: log record                1.29       8.92    5.97    0.6 %  10,509     1454
    leader: log write call            0.34       5.36    3.42    0.3 %   7,204     2252
    leader: log sync: device         37.87      73.66   59.81    5.7 %  10,478     2403
    leader: log sync: flush          28.18      51.28   42.34    4.0 %  10,508     9405
    leader: log sync: wake-up       344.24     570.54  482.96   46.1 %  10,509    97839
    leader: log sync: file system     6.47      14.89   11.63    1.1 %  10,509     6166
    leader: log sync: engine          3.42       6.82    5.50    0.5 %  10,509     2511
    leader: wake the group           37.70      22.09   28.13    2.7 %   9,698     5210
    leader: memtable                  7.85       3.58    5.23    0.5 %   6,172     1299
    leader: wait for the group       14.90       2.74    7.44    0.7 %   3,799     3430
    leader: leave                     0.74       0.52    0.60    0.1 %   4,537       64
    leader: rest                      4.29       7.16    6.05    0.6 %  10,493      153
    no leader                         0.06      34.19   20.98    2.0 %   6,871     5115
    wake-up                          34.84      41.34   38.82    3.7 %  10,512     5177
    entering the queue                0.46       0.00    0.18    0.0 %     899      159
  prepare                             2.61          -    1.01    0.1 %   4,413     4239
  log record                          8.28          -    3.20    0.3 %   4,413     1454
  log write call                      5.14          -    1.99    0.2 %   4,413     2252
  log sync: device                   61.63          -   23.85    2.3 %   4,413     2403
  log sync: flush                    36.87          -   14.27    1.4 %   4,413     9376
  log sync: wake-up                 419.23          -  162.24   15.5 %   4,413    97775
  log sync: file system              11.71          -    4.53    0.4 %   4,413     5568
  log sync: engine                    5.33          -    2.06    0.2 %   4,413     2509
  wake the group                     47.31          -   18.31    1.7 %   3,602     5210
  memtable                           10.03      10.85   10.53    1.0 %  11,403     3482
  wait for the group                 57.57      81.66   72.34    6.9 %  10,592     7153
  leave                               7.21       2.57    4.37    0.4 %   4,413     3598
  rest                               10.41       4.82    6.98    0.7 %  11,403     1160
  all                               1207.6     948.05  1048.5  100.0 %  11,403    99044

  writes        n    mean     p50     p99  p99.9    max
  leader    4,413  1207.6  364.90  8351.6  63530  99044  wrote the log for its group
  parallel  6,990  948.05  304.41  7958.9  34084  98884  inserted its own batch beside others of its group

     ok  writes sum       parts 1048.50 us, write 1048.50 us
     ok  writes queue     parts 721.22 us, wait in the queue 721.22 us
     ok  writes cost      the probes are 7.2 of 1048.5 us (0.7 %)
"""


def _observer(watched: Watched) -> Observer:
    # A workload of ours runs for this, and the plain windows beside it show what it cost; a target's writes are slowed
    # only where that was asked for.
    force = watched.force or watched.run.record.target is None
    request = WritesRequest(watched.pids[0], force=force, symbols=watched.symbols)
    return writes_observer(request, watched.children, watched.run.path(Files.WRITES))


def _analyse(run: Run, _: Rules) -> list[Check]:
    return write_checks(_result(run))


def _result(run: Run) -> WriteLadder:
    return read_write_ladder(run.path(Files.WRITES))


def _causes(run: Run, ladder: WriteLadder) -> list[StallCause]:
    path = run.path(Files.JOBS)
    return stall_causes(read_run_jobs(path), ladder.start_ns, ladder.end_ns) if path.exists() else []


def _text(run: Run) -> str:
    ladder = _result(run)
    return writes_text(ladder, _causes(run, ladder))


def _tables(run: Run) -> Tables:
    ladder = _result(run)
    parts: Sequence[Row] = [
        {"role": role.name, "part_of": part_of, "stage": one.name, "count": one.count, "sum_ns": one.sum_ns,
         "most_ns": one.most_ns, "own_ns": one.own_ns}
        for role in ladder.roles
        for part_of, found in (("write", role.stages), ("join", role.join))
        for one in found
    ]  # fmt: skip
    return {
        "write_roles": [
            {"role": role.name, **role.histogram.figures(), "own_ns": role.own_ns} for role in ladder.roles
        ],
        "write_stages": parts,
        "write_groups": [{"size": size, "groups": groups} for size, groups in ladder.group_sizes],
        "write_stalls": [vars(cause) for cause in _causes(run, ladder)],
    }


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--stages",
        default="auto",
        choices=WRITE_DEPTHS,
        help="full: all of them; few: the queue, stalls and the log's calls; auto: all where that is cheap (default)",
    )
    add("--force", action="store_true", help="follow writes even where that takes more than 5 %% of a CPU")
    add("--symbols", type=Path, metavar="FILE", help="names the functions of the write path (default: RocksDB's)")


def _alone(arguments: argparse.Namespace, children: Children, out: Path) -> Observer:
    request = WritesRequest(one_pid(arguments), arguments.stages, arguments.force, arguments.symbols)
    return writes_observer(request, children, out)


def _show(path: Path) -> tuple[str, list[Check]]:
    ladder = read_write_ladder(path)
    return writes_text(ladder), write_checks(ladder)


def _panel(seen: Observed) -> Markup:
    from viz.page.writes import writes_panel

    ladder, jobs = seen.the(Files.WRITES, WriteLadder), seen.of(Files.JOBS, RunJobs)
    return writes_panel(ladder, stall_causes(jobs, ladder.start_ns, ladder.end_ns) if jobs else ())


INSTRUMENT = Instrument(
    "writes",
    place=10,
    observer=_observer,
    result=Files.WRITES,
    reads={Files.WRITES: read_write_ladder, Files.JOBS: read_run_jobs},
    analyse=_analyse,
    parts={"writepath": Part("a write, stage by stage", Files.WRITES, _text, _tables)},
    panels=[Panel("Write path", "writes", 9, [Files.WRITES], _panel, of_writes=True)],
    alone=Alone(
        "the write path: a write stage by stage, and its wait in the queue by what its leaders did",
        _OVERHEAD,
        _EXAMPLE,
        _add_arguments,
        _alone,
        _show,
    ),
    names=True,
    one_process=True,
)
