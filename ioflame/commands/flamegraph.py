"""`ioflame flamegraph [FILE]`: a flame graph of anybody's profile, as a drawing or as a page.

FILE is folded stacks (lines `frame;frame;frame WEIGHT`, as every folder writes them), a recording of perf, text of
perf script, or pprof; `-` or nothing is standard input. The end of OUT's name says its kind: .svg (readable without
scripts), .html (like a report's page, but without a run), .speedscope.json, .firefox.json (profiler.firefox.com),
.pb.gz (pprof: go tool pprof -http=: OUT).

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
from ioflame.present.stacks import Stacks, read_source, read_stacks, write_pprof
from viz.export.firefox import firefox_profile
from viz.export.speedscope import speedscope
from viz.flame.stacks import Stack
from viz.page.report import render_stacks
from viz.svg.flame_graph import FlamegraphOptions, flamegraph
from viz.svg.static import WIDTH
from workloads.registry import rules_named

__all__ = ("add_parser", "run")

_DEFAULT = "flamegraph.svg"
_LEAST = 0.5
# What OUT may end in, and what opens it.
_KINDS = {
    ".svg": "open it in a browser",
    ".html": "open it in a browser",
    ".speedscope.json": "open it with speedscope",
    ".firefox.json": "open it in profiler.firefox.com",
    ".pb.gz": "go tool pprof -http=: {out}",
}


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "flamegraph",
        help="a flame graph of folded stacks, perf.data, pprof or perf script text",
        description=__doc__,
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
        help=f"narrower frames are not drawn, but counted (default: {_LEAST})",
    )
    parser.add_argument("--inverted", action="store_true", help="from the leaf: the callers of every function")
    parser.add_argument(
        "--rules",
        metavar="RULES",
        help="category rules that colour it: rocksdb, or a file of your own (default: the run's, of its own stacks)",
    )
    parser.add_argument("--view", default="owner", metavar="NAME", help="which view of the rules (default: owner)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    out = _out(arguments)
    _refuse_what_has_no_effect(arguments, str(out))
    source = read_source(arguments.file)
    if str(out).endswith(".pb.gz"):
        with Reporter.on_terminal().stage(f"fold {arguments.file}"):
            write_pprof(source, arguments.event, out)
        print(f"wrote {out}   ({_how_to_open(out)})")
        return EXIT_OK
    with Reporter.on_terminal().stage(f"read {arguments.file}"):
        rules = rules_named(arguments.rules).categories if arguments.rules else None
    found = read_stacks(source, arguments.event, rules, arguments.view)
    total = sum(stack.weight for stack in found.stacks)
    if not total:
        raise MeasurementError(
            "no stack with any weight: there is nothing to draw", means="the input is empty, or all its weights are 0"
        )
    unit = arguments.unit or found.unit or "units"
    title = arguments.title or ("flame graph" if arguments.file == "-" else Path(arguments.file).name)
    text = _render(found, title, unit, arguments, str(out))
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
    print(f"wrote {out}: {distinct:,} stacks, {total:,} {unit}{event}   ({_how_to_open(out)})")
    return code


def _how_to_open(out: Path) -> str:
    return next(words for end, words in _KINDS.items() if out.name.endswith(end)).format(out=shlex.quote(str(out)))


def _refuse_what_has_no_effect(arguments: argparse.Namespace, out: str) -> None:
    if arguments.width is not None and not 300 <= arguments.width <= 20000:
        raise UsageError(f"--width {arguments.width} is no width of a drawing", mend="300 to 20000")
    if arguments.min_width is not None and arguments.min_width < 0:
        raise UsageError(f"--min-width {arguments.min_width} is below 0")
    if out == "-" or out.endswith(".svg"):
        return
    asked = {"--width": arguments.width, "--min-width": arguments.min_width}
    if not out.endswith(".html"):
        asked |= {"--inverted": arguments.inverted or None, "--us-per-query": arguments.us_per_query}
    if out.endswith(".pb.gz"):
        asked |= {"--rules": arguments.rules, "--title": arguments.title, "--unit": arguments.unit}
    without = [option for option, value in asked.items() if value is not None]
    if without:
        means = (
            "a page takes the width of its window" if out.endswith(".html") else "this kind of file has no place for it"
        )
        raise UsageError(
            f"{', '.join(without)}: of no effect on {out}", means=means, mend=f"without {', '.join(without)}"
        )


def _render(found: Stacks, title: str, unit: str, arguments: argparse.Namespace, name: str) -> str:
    stacks = found.stacks
    if name.endswith(".speedscope.json"):
        return speedscope(stacks, title, unit)
    if name.endswith(".firefox.json"):
        return firefox_profile(stacks, title, unit)
    if name.endswith(".html"):
        return render_stacks(
            stacks, title, unit, arguments.us_per_query, "callers" if arguments.inverted else "callees"
        )
    shown = _inverted(stacks) if arguments.inverted else stacks
    total = sum(stack.weight for stack in stacks)
    event = f"{found.event}: " if found.event else ""
    options = FlamegraphOptions(
        title=title + (", callers of every function" if arguments.inverted else ""),
        unit=unit,
        subtitle=f"{event}{total:,} {unit} in {len({stack.frames for stack in stacks}):,} stacks",
        warnings=[f"cut short: {found.cut_short}"] if found.cut_short else (),
        us_per_query=arguments.us_per_query,
        min_width_px=_LEAST if arguments.min_width is None else arguments.min_width,
        width=arguments.width or WIDTH,
    )
    return flamegraph(shown, options)


def _inverted(stacks: list[Stack]) -> list[Stack]:
    """The stacks from the leaf up. A category is then that of the whole stack, so it begins at the leaf."""
    return [
        Stack(stack.frames[::-1], stack.weight, stack.samples, stack.category, -1 if stack.anchor_depth < 0 else 0)
        for stack in stacks
    ]


def _out(arguments: argparse.Namespace) -> Path:
    if arguments.out is not None:
        out = Path(arguments.out)
    elif arguments.file == "-":
        out = Path(_DEFAULT)
    else:
        out = Path(arguments.file).with_suffix(".svg")
    if str(out) != "-" and not str(out).endswith(tuple(_KINDS)):
        raise UsageError(f"{out}: the end of the name says what is written", mend=f"one of {', '.join(_KINDS)}")
    if str(out) != "-" and not arguments.force:
        check_new(out, str(out), "--force, or -o OTHER")
    return out
