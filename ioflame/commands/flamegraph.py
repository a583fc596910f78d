"""`ioflame flamegraph [FILE]`: a flame graph of anybody's profile, as a drawing or as a page.

FILE is folded stacks (lines `frame;frame;frame WEIGHT`, as every folder writes them), a recording of perf, text of
perf script, or pprof; `-` or nothing is standard input. The end of OUT's name says its kind.

examples:
  ioflame flamegraph perf.data -o perf.html
  perf script | ioflame flamegraph --rules rocksdb -o reads.svg
  ioflame flamegraph cpu.pb.gz --inverted
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from ground.errors import EXIT_CHECK_FAILED, EXIT_OK, MeasurementError, UsageError
from ground.system.atomic_files import check_new, write_whole
from ground.text.progress import Reporter
from ioflame.commands.arguments import Commands
from ioflame.present.formats import FORMATS, Asked, Format, format_of
from ioflame.present.stacks import read_source, read_stacks, write_pprof
from viz.svg.static import LEAST_PX, WIDTH
from workloads.registry import rules_named

__all__ = ("add_parser", "run")

_DEFAULT = "flamegraph.svg"
# Options that some kinds of file have no use for.
_OF_SOME = ("--width", "--min-width", "--inverted", "--us-per-query", "--rules", "--title", "--unit")


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "flamegraph",
        help="a flame graph of folded stacks, perf.data, pprof or perf script text",
        description=f"{__doc__}\n{_kinds()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", nargs="?", default="-", metavar="FILE", help="the profile; - is standard input")
    parser.add_argument(
        "-o",
        "--out",
        metavar="OUT",
        help=f"default: FILE with .svg, {_DEFAULT} for standard input; - is standard output, as SVG",
    )
    parser.add_argument("--force", action="store_true", help="write over an OUT that is there")
    parser.add_argument("--title", help="first line; default: the name of the file")
    parser.add_argument("--unit", help="of the weights: ns, cycles, bytes, ... (default: as FILE says, else units)")
    parser.add_argument(
        "--event", metavar="NAME", help="which event of a recording, or value of a pprof, if it has several"
    )
    parser.add_argument(
        "--us-per-query", type=float, metavar="US", help="CPU us of one query: gives every frame its part"
    )
    parser.add_argument("--width", type=int, metavar="PX", help=f"of the drawing (default: {WIDTH})")
    parser.add_argument(
        "--min-width",
        type=float,
        metavar="PX",
        help=f"narrower frames are not drawn, but counted (default: {LEAST_PX})",
    )
    parser.add_argument("--inverted", action="store_true", help="from the leaf: the callers of every function")
    parser.add_argument(
        "--rules",
        metavar="RULES",
        help="category rules that colour it: rocksdb, or a file of your own (default: the run's, of its own stacks)",
    )
    parser.add_argument("--view", default="owner", metavar="NAME", help="which view of the rules (default: owner)")
    parser.set_defaults(run=run)


def _kinds() -> str:
    width = max(map(len, FORMATS))
    return "\n".join(["OUT:", *(f"  {end:{width}}  {one.opens.format(out='OUT')}" for end, one in FORMATS.items())])


def run(arguments: argparse.Namespace) -> int:
    out = _out(arguments)
    kind = format_of(out.name) or FORMATS[".svg"]
    _refuse_what_has_no_effect(arguments, kind, out)
    source = read_source(arguments.file)
    opens = kind.opens.format(out=shlex.quote(str(out)))
    if kind.render is None:
        with Reporter.on_terminal().stage(f"fold {arguments.file}"):
            write_pprof(source, arguments.event, out)
        print(f"wrote {out}   ({opens})")
        return EXIT_OK
    with Reporter.on_terminal().stage(f"read {arguments.file}"):
        rules = rules_named(arguments.rules).categories if arguments.rules else None
    found = read_stacks(source, arguments.event, rules, arguments.view)
    total = sum(stack.weight for stack in found.stacks)
    if not total:
        raise MeasurementError(
            "no stack with any weight: there is nothing to draw", means="the input is empty, or all its weights are 0"
        )
    asked = Asked(
        arguments.title or ("flame graph" if arguments.file == "-" else Path(arguments.file).name),
        arguments.unit or found.unit or "units",
        arguments.us_per_query,
        arguments.inverted,
        arguments.width,
        arguments.min_width,
    )
    text = kind.render(found, asked)
    if found.cut_short:
        print(
            f"warning: the input is cut short, and only what came before is shown: {found.cut_short}", file=sys.stderr
        )
    code = EXIT_CHECK_FAILED if found.cut_short else EXIT_OK
    if str(out) == "-":
        sys.stdout.write(text)
        return code
    try:
        write_whole(out, text.encode("utf-8", "replace"))
    except MeasurementError as error:
        raise UsageError(error.what, mend="-o FILE in a directory you own") from None
    distinct = len({stack.frames for stack in found.stacks})
    event = f" of {found.event}" if found.event else ""
    print(f"wrote {out}: {distinct:,} stacks, {total:,} {asked.unit}{event}   ({opens})")
    return code


def _refuse_what_has_no_effect(arguments: argparse.Namespace, kind: Format, out: Path) -> None:
    if arguments.width is not None and not 300 <= arguments.width <= 20000:
        raise UsageError(f"--width {arguments.width} is no width of a drawing", mend="300 to 20000")
    if arguments.min_width is not None and arguments.min_width < 0:
        raise UsageError(f"--min-width {arguments.min_width} is below 0")
    without = [option for option in _OF_SOME if option not in kind.takes and _is_given(arguments, option)]
    if without:
        raise UsageError(
            f"{', '.join(without)}: of no effect on {out}", means=kind.else_, mend=f"without {', '.join(without)}"
        )


def _is_given(arguments: argparse.Namespace, option: str) -> bool:
    return getattr(arguments, option.removeprefix("--").replace("-", "_")) not in (None, False)


def _out(arguments: argparse.Namespace) -> Path:
    if arguments.out is not None:
        out = Path(arguments.out)
    elif arguments.file == "-":
        out = Path(_DEFAULT)
    else:
        out = Path(arguments.file).with_suffix(".svg")
    if str(out) != "-" and not str(out).endswith(tuple(FORMATS)):
        raise UsageError(f"{out}: the end of the name says what is written", mend=f"one of {', '.join(FORMATS)}")
    if str(out) != "-" and not arguments.force:
        check_new(out, str(out), "--force, or -o OTHER")
    return out
