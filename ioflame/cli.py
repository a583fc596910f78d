"""The command line: verbs in `ioflame.commands`, one way to print an error, and the exit codes."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from collections.abc import Iterator, Sequence

from ioflame import __version__
from ioflame.errors import EXIT_INTERRUPTED, EXIT_OK, IoflameError, error_of_system
from ioflame.terminal import ReaderGoneError, on_terminal

__all__ = ("main",)

_ABOUT = """ioflame: where does the CPU of one RocksDB read go, and what does it cost in microseconds?

examples:
  ioflame doctor                               what can be measured here?
  ioflame profile --scale smoke                run readrandom, profile it, a minute
  ioflame report runs/A runs/B                 two runs side by side, one offline page
  ioflame analyse runs/latest                  fold and draw a recorded run again
  ioflame flamegraph perf.data -o perf.html    anybody's profile as a flame graph
  ioflame ebpf iolat --pid 4242 --seconds 10   IO latency of any process
  ioflame pmp --pid $(pidof mysqld)            where its threads are, and wait
  ioflame experiment io-efficiency --users "1 6"
                                               fio against RocksDB, tree by tree
  ioflame list                                 workloads, scales, configurations, ...
  ioflame explain readrandom                   the command line that it would run"""
_EXIT_CODES = """exit codes: 0 fine, 1 measured but a check failed, 2 bad usage, 3 the host cannot do it,
130 interrupted"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ioflame",
        description=_ABOUT,
        epilog=_EXIT_CODES,
        # wide enough for the longest command beside its line
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=16),
    )
    parser.add_argument("--version", action="version", version=f"ioflame {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    from ioflame.commands import analyse, catalogue, doctor, ebpf, experiment, flamegraph, pmp, profile, report

    for command in (profile, doctor, analyse, experiment, ebpf, pmp, catalogue, report, flamegraph):
        command.add_parser(commands)
    return parser


@contextlib.contextmanager
def _ended_at_once() -> Iterator[None]:
    """Within: SIGINT ends us as it ends other programs. While modules load, there is nothing to clean up or to say."""
    raising = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if raising:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        if raising:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; errors are printed once, without a traceback, and end with their own exit code."""
    with _ended_at_once():
        parser = _parser()
    with on_terminal():
        try:
            arguments = _parsed(parser, argv)
            code: int = arguments.run(arguments)
            sys.stdout.flush()
            return code
        except IoflameError as error:
            return _say(error)
        except OSError as error:
            return _say(error_of_system(error))
        except KeyboardInterrupt:
            print("ioflame: interrupted; nothing was left running", file=sys.stderr)
            return EXIT_INTERRUPTED
        except ReaderGoneError:
            return EXIT_OK


def _parsed(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    try:
        return parser.parse_args(argv)
    except SystemExit:
        # The help is printed; whether it arrived is seen here and not when the interpreter ends.
        sys.stdout.flush()
        raise


def _say(error: IoflameError) -> int:
    # What was printed so far comes before what is said of the rest.
    with contextlib.suppress(IoflameError, ReaderGoneError):
        sys.stdout.flush()
    print(f"ioflame: {error}", file=sys.stderr)
    return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
