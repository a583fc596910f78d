"""`writes`: where the time of a write goes, by its stages, and in the queue of writers by those of its leaders."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from ebpf.writes import WRITE_DEPTHS, WritesRequest, write_checks, writes_observer
from ground.results.checks import Check
from ground.results.files import Files
from ground.results.run import Run
from ground.results.write_ladder import WriteLadder, read_write_ladder
from ground.system.observer import Observer
from ground.system.process import Children
from ground.text.tsv import Row
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
ioflame ebpf writes --pid 11767 --seconds 3 --force
(db_bench fillrandom, 4 threads, --sync=1 --enable_pipelined_write=false, on a busy VM of 2 CPUs)

Writes (us; process 11767, 3.0 s, 4 threads, all stages)
a write takes 938.9 us on average: log sync call 78.9 %, wait for the group 7.3 %, wake the group 3.6 %
  (a stage is its own, or its leader's while it waits)
12,736 writes, 12,736 with sync, 0 without log
2.56 writes a group on average, n 4,972 (1: 23.4 %, 2: 20.6 %, 3: 32.4 %, 4: 23.6 %)

  us a write                    leaders  followers     all    share       n  longest
  before the queue                 1.84       1.79    1.81    0.2 %  12,736      297
  queue of writers               427.45     779.29  641.96   68.4 %  12,736    11792
    leader: prepare                0.00       1.58    0.97    0.1 %   7,781       18
    leader: log record             1.17       8.50    5.64    0.6 %  11,497      117
    leader: log write call         0.27       4.34    2.75    0.3 %   7,978      247
    leader: log sync call        359.91     672.98  550.78   58.7 %  11,497    11612
    leader: log sync, rest         2.35       5.70    4.39    0.5 %  11,497       62
    leader: wake the group        21.61      19.75   20.48    2.2 %  10,335     8054
    leader: memtable               6.44       3.82    4.84    0.5 %   6,910      118
    leader: wait for the group     8.11       1.53    4.10    0.4 %   3,616     4135
    leader: leave                  0.81       0.60    0.68    0.1 %   5,419       16
    leader: rest                   4.12       7.71    6.31    0.7 %  11,497      141
    no leader                      0.05      21.14   12.91    1.4 %   7,675     3842
    wake-up                       21.38      31.21   27.37    2.9 %  11,499     7986
    entering the queue             1.24       0.42    0.74    0.1 %   1,244     3299
  prepare                          1.58          -    0.62    0.1 %   4,971       34
  log record                       7.69          -    3.00    0.3 %   4,971      114
  log write call                   4.13          -    1.61    0.2 %   4,971      247
  log sync call                  487.80          -  190.39   20.3 %   4,971     8241
  log sync, rest                   4.41          -    1.72    0.2 %   4,971       53
  wake the group                  33.71          -   13.16    1.4 %   3,809     8054
  memtable                         8.39       8.47    8.44    0.9 %  12,736      118
  wait for the group              54.27      71.52   64.78    6.9 %  11,574     4272
  leave                            5.27       3.31    4.07    0.4 %   4,972      526
  rest                            10.53       5.28    7.33    0.8 %  12,736     1165
  all                            1047.1     869.65  938.89  100.0 %  12,736    12047

  writes        n    mean     p50     p99  p99.9    max
  leader    4,971  1047.1  323.24  8090.2  11280  12047  wrote the log for its group
  parallel  7,765  869.65  264.17  7946.2  10517  11861  inserted its own batch beside others of its group

     ok  writes sum       parts 938.89 us, write 938.89 us
     ok  writes queue     parts 641.96 us, wait in the queue 641.96 us
     ok  writes groups    12,738 writes in 4,972 groups, 12,736 through the queue
     ok  writes cost      the probes are 10.9 of 938.9 us (1.2 %)
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


def _text(run: Run) -> str:
    return writes_text(_result(run))


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

    return writes_panel(seen.the(Files.WRITES, WriteLadder))


INSTRUMENT = Instrument(
    "writes",
    place=10,
    observer=_observer,
    result=Files.WRITES,
    reads={Files.WRITES: read_write_ladder},
    analyse=_analyse,
    parts={"writepath": Part("a write, stage by stage", Files.WRITES, _text, _tables)},
    panels=[Panel("Write path", "writes", 9, [Files.WRITES], _panel)],
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
