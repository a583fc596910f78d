"""The command line: verbs in `ioflame.commands`, one way to print an error, and the exit codes."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ground.errors import EXIT_INTERRUPTED, EXIT_OK, IoflameError, error_of_system
from ground.settings import words_of_make
from ground.text.nearest import did_you_mean
from ground.text.terminal import Colours, ReaderGoneError, on_terminal

if TYPE_CHECKING:
    from ioflame.commands.arguments import Commands

_ABOUT = """ioflame: where does the CPU of one RocksDB read go, and what does it cost in microseconds?

examples:
  ioflame doctor                               what can be measured here?
  ioflame profile --scale smoke                run readrandom, profile it, a minute
  ioflame run -- ./db_bench --my --flags       your own command or script: the same answer
  ioflame attach --pid 4711 --seconds 60       a service that runs: the same answer
  ioflame runs                                 what was measured so far, a line a run
  ioflame show runs/latest waits               a part of a finished run, in the terminal
  ioflame report runs/A runs/B                 two runs side by side, one offline page
  ioflame compare --arm a=BIN --arm b=BIN      is b slower, by how much, and is it real?
  ioflame analyse runs/latest                  fold and draw a recorded run again
  ioflame flamegraph perf.data -o perf.html    anybody's profile as a flame graph
  ioflame flamegraph A B -o diff.svg           two profiles: colour where they differ
  ioflame store add STORE runs/latest          keep many runs and hosts; ask them with SQL
  ioflame ebpf iolat --pid 4242 --seconds 10   IO latency of any process
  ioflame pmp --pid $(pidof mysqld)            where its threads are, and wait
  ioflame experiment io-efficiency --users "1 6"
                                               fio against RocksDB, tree by tree
  ioflame list                                 workloads, scales, configurations, ...
  ioflame explain readrandom                   the command line that it would run"""
_EPILOG = """`ioflame COMMAND --help` says more of a command.

exit codes: 0 fine, 1 measured but a check failed, 2 bad usage, 3 the host cannot do it,
130 interrupted"""

_COMMAND = "COMMAND"

# What the commands are for; a new one is listed here, and is in the module of its name in `ioflame.commands`.
_GROUPS = {
    "measure": ("profile", "run", "attach", "top", "agent", "experiment", "ebpf", "pmp"),
    "look": ("runs", "show", "flamegraph", "analyse", "pack", "rules"),
    "compare": ("compare", "count", "sweep", "bisect", "report", "store", "history"),
    "set up": ("doctor", "list", "explain", "rocksdb"),
}
_MODULES = {"list": "catalogue", "explain": "catalogue", "top": "attach"}


class _Commands:
    """The subparsers of argparse, with each command's help in `about`: argparse does not expose it."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        self.about: dict[str, str] = {}

    def add_parser(self, name: str, *, help: str, **more: Any) -> argparse.ArgumentParser:
        self.about[name] = help
        # Descriptions have examples, which keep their layout.
        more.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        return self._commands.add_parser(name, help=help, **more)


class _Parser(argparse.ArgumentParser):
    """Parsers of commands are of this class, too: a name that none of them has is answered with the nearest.

    A description that takes long to make is a function, which is called for the help.
    """

    def format_help(self) -> str:
        if callable(self.description):
            self.description = self.description()
        return super().format_help()

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            known = list(action.choices)
            listed = ", ".join(map(repr, known))
            raise argparse.ArgumentError(
                action, f"invalid choice: {value!r} ({did_you_mean(str(value), known)}choose from {listed})"
            )


class _Grouped(argparse.RawDescriptionHelpFormatter):
    """argparse lists commands in one block; here the description lists them, grouped by purpose."""

    def add_argument(self, action: argparse.Action) -> None:
        if action.metavar != _COMMAND:
            super().add_argument(action)


class _Version(argparse.Action):
    """Asked of git once it is wanted, and not for each command."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from ioflame.version import version

        print(f"ioflame {version()}")
        parser.exit()


def build_parser(only: str | None = None) -> tuple[argparse.ArgumentParser, Mapping[str, str]]:
    """The parser of all commands; and by name what each does, in a line.

    only: the command that is to be parsed; others are not loaded then, which takes longer than most commands do
    """
    parser = _Parser(prog="ioflame", epilog=_EPILOG, formatter_class=_Grouped)
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and its commit")
    commands = _Commands(parser.add_subparsers(metavar=_COMMAND, required=True))
    known = [name for names in _GROUPS.values() for name in names]
    # Each once, in the order of its first command.
    for module in dict.fromkeys(_MODULES.get(name, name) for name in ([only] if only in known else known)):
        importlib.import_module(f"ioflame.commands.{module}").add_parser(commands)
    blocks = [
        "\n".join([f"{group}:", *(f"  {name:<12}{commands.about.get(name, '')}" for name in names)])
        for group, names in _GROUPS.items()
    ]
    parser.description = "\n\n".join([_ABOUT, *blocks])
    return parser, commands.about


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
        words = list(sys.argv[1:] if argv is None else argv)
        if argv is None and words:
            words[1:1] = words_of_make(words[0])
        parser, _ = build_parser(words[0] if words else None)
    with on_terminal(_painted):
        try:
            arguments = _parsed(parser, words or ["--help"])
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
        finally:
            # `python -m` ends by SIGINT, whatever the exit code, once an interrupt has passed an exec of text, such as
            # that of a dataclass whose module is loaded late, even where it was caught. The next exec forgets it.
            exec("")


def _painted(text: str, colours: Colours) -> str:
    from viz.terminal.colour import painted  # only where somebody looks on

    return painted(text, colours)


def _parsed(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
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
