"""`ioflame flamegraph [FILE [B]]`: a flame graph of anybody's profile, or of two, as a drawing or as a page.

FILE is folded stacks (lines `frame;frame;frame WEIGHT`, as every folder writes them), a recording of perf, text of
perf script, or pprof, packed by gzip, xz, zstd or not; `-` or nothing is standard input. The end of OUT's name says its
kind.

examples:
  ioflame flamegraph perf.data -o perf.html
  perf script | ioflame flamegraph --rules rocksdb -o reads.svg
  ioflame flamegraph cpu.pb.gz --inverted
  ioflame flamegraph before.data after.data -o difference.html

With B, another profile, one graph is drawn of both; FILE is the base. Two run directories are compared in us per query.
  width   the mean of both. Each is scaled to 100 %, or to its own --us-per-query A B
  colour  orange: B costs more; blue: less; stronger: new in B, or vanished. Grey: no difference seen
  rule    colour only where the 95 % interval of the difference, widened for the number of frames tested, leaves zero.
          The interval is of chance in sampling alone: two recordings of one program may differ by more
          (`ioflame compare` repeats both in turns). Folded text has no numbers of samples: then colour begins at
          1 % of the whole; --unit samples says that its weights are numbers of samples
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from ground.errors import EXIT_CHECK_FAILED, EXIT_OK, MeasurementError, UsageError
from ground.system.atomic_files import check_new, write_whole
from ground.text.progress import Reporter
from ground.text.ranges import within
from ioflame.commands.arguments import Commands
from ioflame.present.formats import FORMATS, Asked, Format, format_of
from ioflame.present.stacks import read_source, read_stacks, write_pprof
from ioflame.present.two_profiles import compare_two
from viz.flame.difference import differs
from viz.svg.static import LEAST_PX, WIDTH
from workloads.registry import rules_named

_DEFAULT = "flamegraph.svg"
_OF_TWO = "difference.svg"
# Options that some kinds of file have no use for.
_OF_SOME = ("--width", "--min-width", "--inverted", "--us-per-query", "--rules", "--title", "--unit")


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "flamegraph",
        help="a flame graph of perf.data, pprof, folded or perf script text; or of two",
        description=f"{__doc__}\n{_kinds()}",
    )
    parser.add_argument("file", nargs="?", default="-", metavar="FILE", help="the profile; - is standard input")
    parser.add_argument("other", nargs="?", metavar="B", help="a second one, to be compared with FILE")
    parser.add_argument(
        "-o",
        "--out",
        metavar="OUT",
        help=f"default: FILE with .svg, {_DEFAULT} for standard input, {_OF_TWO} for two; - is standard output, as SVG",
    )
    parser.add_argument("--force", action="store_true", help="write over an OUT that is there")
    parser.add_argument("--title", help="first line; default: the name of the file")
    parser.add_argument(
        "--unit", help="unit of the weights: ns, cycles, bytes, ... (default: as FILE says, else units)"
    )
    parser.add_argument(
        "--event", metavar="NAME", help="which event of a recording, or value of a pprof, if it has several"
    )
    parser.add_argument(
        "--us-per-query",
        type=within("--us-per-query", float, 0.001, 1e12),
        nargs="+",
        metavar="US",
        help="CPU us of one query: gives every frame its part; of two profiles, that of either",
    )
    wide = within("--width", int, 300, 20_000)
    parser.add_argument("--width", type=wide, metavar="PX", help=f"of the drawing (default: {WIDTH})")
    parser.add_argument(
        "--min-width",
        type=within("--min-width", float, 0.0, 20_000.0),
        metavar="PX",
        help=f"narrower frames are not drawn, but counted (default: {LEAST_PX})",
    )
    parser.add_argument("--inverted", action="store_true", help="from the leaf: the callers of every function")
    parser.add_argument(
        "--rules",
        metavar="RULES",
        help="category rules that colour it: rocksdb, or a file of your own (default: the run's, or its engine's)",
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
    if arguments.other is not None:
        return _run_two(arguments, kind, out)
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
        arguments.us_per_query[0] if arguments.us_per_query else None,
        arguments.inverted,
        arguments.width,
        arguments.min_width,
    )
    text = kind.render(found, asked)
    if found.cut_short:
        print(f"warning: the input is cut short, and only what is there is shown: {found.cut_short}", file=sys.stderr)
    code = EXIT_CHECK_FAILED if found.cut_short else EXIT_OK
    if not _write(out, text):
        return code
    distinct = len({stack.frames for stack in found.stacks})
    event = f" of {found.event}" if found.event else ""
    print(f"wrote {out}: {distinct:,} stacks, {total:,} {asked.unit}{event}   ({opens})")
    if found.recognised:
        print(f"coloured by the rules of {found.recognised}, whose functions are in it (--rules takes others)")
    return code


def _run_two(arguments: argparse.Namespace, kind: Format, out: Path) -> int:
    paths = [arguments.file, arguments.other]
    _refuse_for_two(arguments, kind, out)
    assert kind.render_two is not None
    with Reporter.on_terminal().stage(f"compare {' and '.join(paths)}"):
        compared = compare_two(paths, arguments.event, arguments.us_per_query, arguments.unit == "samples")
    base, arm = compared.found.sides
    asked = Asked(
        arguments.title or f"{arm.name} against {base.name}", compared.unit, None, False, arguments.width,
        arguments.min_width,
    )  # fmt: skip
    text = kind.render_two(compared, asked)
    for path, why in compared.cut_short.items():
        print(f"warning: {path} is cut short, and only what is there is shown: {why}", file=sys.stderr)
    if _write(out, text):
        totals = compared.found.totals
        if compared.also_different:
            print(compared.also_different)
        print(differs(compared.found, compared.unit))
        frames = f"{totals.different_nodes:,} of {len(compared.found.nodes.depth):,} frames differ"
        print(f"wrote {out}: {frames}   ({kind.opens.format(out=shlex.quote(str(out)))})")
    return EXIT_CHECK_FAILED if compared.cut_short else EXIT_OK


def _refuse_for_two(arguments: argparse.Namespace, kind: Format, out: Path) -> None:
    if kind.render_two is None:
        known = " or ".join(end for end, one in FORMATS.items() if one.render_two is not None)
        raise UsageError(f"{out}: this kind of file holds one profile", mend=f"-o NAME with {known}, or one FILE")
    if arguments.file == arguments.other == "-":
        raise UsageError("both profiles are standard input", mend="one of them as a file")
    without = [option for option in ("--inverted", "--rules") if _is_given(arguments, option)]
    without += ["--unit"] if arguments.unit not in (None, "samples") else []
    if without:
        raise UsageError(
            f"{', '.join(without)}: of no effect on a graph of two profiles",
            means="its colour is the difference, and its unit us per query or % of all; --unit samples alone has one",
            mend=f"without {', '.join(without)}",
        )


def _write(out: Path, text: str) -> bool:
    """Whether it is a file; otherwise it went to standard output."""
    if str(out) == "-":
        sys.stdout.write(text)
        return False
    try:
        write_whole(out, text.encode("utf-8", "replace"))
    except MeasurementError as error:
        raise UsageError(error.what, mend="-o FILE in a directory you own") from None
    return True


def _refuse_what_has_no_effect(arguments: argparse.Namespace, kind: Format, out: Path) -> None:
    costs, profiles = arguments.us_per_query, 1 if arguments.other is None else 2
    if costs is not None and len(costs) != profiles:
        raise UsageError(
            f"--us-per-query {' '.join(f'{cost:g}' for cost in costs)}: expected {profiles} number"
            f"{'s' * (profiles - 1)} above 0, the CPU us of a query of each profile",
            mend="files before options: ioflame flamegraph A B --us-per-query 19.2 20.4",
        )
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
    elif arguments.other is not None:
        out = Path(_OF_TWO)
    elif arguments.file == "-":
        out = Path(_DEFAULT)
    else:
        out = Path(arguments.file).with_suffix(".svg")
    if str(out) != "-" and not str(out).endswith(tuple(FORMATS)):
        raise UsageError(f"{out}: the end of the name says what is written", mend=f"one of {', '.join(FORMATS)}")
    if str(out) != "-" and not arguments.force:
        check_new(out, str(out), "--force, or -o OTHER")
    return out
