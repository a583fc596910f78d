"""The command line: verbs in `ioflame.commands`, one way to print an error, and the exit codes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from ioflame import __version__
from ioflame.commands import analyse, catalogue, doctor, ebpf, experiment, flamegraph, pmp, profile, report
from ioflame.errors import EXIT_INTERRUPTED, EXIT_OK, IoflameError

__all__ = ("main",)

_ABOUT = """examples:
  ioflame doctor                                 what can be measured here?
  ioflame profile --workload readrandom          run it, profile it, print where its CPU goes
  ioflame analyse runs/latest                    fold and draw a recorded run again
  ioflame experiment io-efficiency --users "1 6" fio against RocksDB, on trees of several levels and of one
  ioflame report runs/A runs/B                   two runs side by side on one offline page
  ioflame ebpf iolat --pid 4242 --seconds 10     IO latency of any process, queue and device apart
  ioflame pmp --pid $(pidof mysqld)              where every thread is, by wall clock, and who waits for locks
  perf script | stackfold | ioflame flamegraph - -o out.svg
  ioflame list                                   engines, scales, steps, workloads, experiments
  ioflame explain readrandom                     the command line a step would run

ioflame: where does the CPU of one RocksDB read go, and what does it cost in microseconds?
exit codes: 0 fine, 1 measured but a check failed, 2 bad usage, 3 the host cannot do it, 130 interrupted"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ioflame", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"ioflame {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in (profile, doctor, analyse, experiment, ebpf, pmp, catalogue, report, flamegraph):
        command.add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; errors are printed once, without a traceback, and end with their own exit code."""
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except IoflameError as error:
        print(f"ioflame: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("ioflame: interrupted; nothing was left running", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away (`| head`): no error, and nothing more to print at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
