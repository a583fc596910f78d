"""`ioflame flamegraph [FILE]`: a flame graph of anybody's folded stacks, as a drawing or as a page.

FILE holds lines `frame;frame;frame WEIGHT`, as every folder writes them; `-` or nothing is standard input. The end of
OUT's name says its kind: .svg (readable without scripts), .html (like a report's page, but without a run),
.speedscope.json, .firefox.json (profiler.firefox.com).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from folding.stackfold import stackfold_binary
from ioflame.errors import EXIT_OK, MeasurementError, UsageError
from ioflame.process import capture
from viz.exports import firefox_profile, speedscope
from viz.flamegraph import FlamegraphOptions, flamegraph
from viz.frames import Stack, read_categorised, read_folded
from viz.report import render_stacks

__all__ = ("add_parser", "run")

_DEFAULT = "flamegraph.svg"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "flamegraph",
        help="a flame graph of folded stacks, from a file or standard input",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", nargs="?", default="-", metavar="FILE", help="folded stacks; - is standard input")
    parser.add_argument(
        "-o",
        "--out",
        metavar="OUT",
        help=f"default: FILE with .svg, {_DEFAULT} for standard input; - is standard output, as SVG",
    )
    parser.add_argument("--force", action="store_true", help="write over an OUT that is there")
    parser.add_argument("--title", help="first line; default: the name of the file")
    parser.add_argument("--unit", default="samples", help="of the weights: ns, cycles, bytes, ... (default: samples)")
    parser.add_argument(
        "--us-per-query", type=float, metavar="US", help="CPU us of one query: gives every frame its part"
    )
    parser.add_argument("--width", type=int, default=1200, metavar="PX", help="of the drawing (default: 1200)")
    parser.add_argument(
        "--min-width",
        type=float,
        default=0.5,
        metavar="PX",
        help="narrower frames are not drawn, but counted (default: 0.5)",
    )
    parser.add_argument("--inverted", action="store_true", help="from the leaf: the callers of every function")
    parser.add_argument(
        "--rules", metavar="RULES", help="category rules that colour it: rocksdb, or a file of your own"
    )
    parser.add_argument(
        "--view", default="owner", choices=("owner", "leaf"), help="which view of the rules (default: owner)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    out = _out(arguments)
    if not 300 <= arguments.width <= 20000:
        raise UsageError(f"--width {arguments.width} is no width of a drawing", mend="300 to 20000")
    if arguments.inverted and not str(out).endswith(".svg") and str(out) != "-":
        raise UsageError(
            f"{out} is not drawn one way round",
            means="the page turns itself: View, from the leaf",
            mend="without --inverted",
        )
    if arguments.min_width < 0:
        raise UsageError(f"--min-width {arguments.min_width} is below 0")
    data = _read(arguments.file)
    stacks = _stacks(data, arguments)
    if not sum(stack.weight for stack in stacks):
        raise MeasurementError(
            "no stack with any weight: there is nothing to draw", means="the input is empty, or all its weights are 0"
        )
    title = arguments.title or ("flame graph" if arguments.file == "-" else Path(arguments.file).name)
    text = _render(stacks, title, arguments, str(out))
    if str(out) == "-":
        sys.stdout.write(text)
        return EXIT_OK
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror}") from None
    print(f"wrote {out}: {len(stacks):,} stacks, {sum(stack.weight for stack in stacks):,} {arguments.unit}")
    return EXIT_OK


def _render(stacks: list[Stack], title: str, arguments: argparse.Namespace, name: str) -> str:
    if name.endswith(".speedscope.json"):
        return speedscope(stacks, title, arguments.unit)
    if name.endswith(".firefox.json"):
        return firefox_profile(stacks, title, arguments.unit)
    if name.endswith(".html"):
        return render_stacks(stacks, title, arguments.unit, arguments.us_per_query)
    shown = _inverted(stacks) if arguments.inverted else stacks
    total = sum(stack.weight for stack in stacks)
    options = FlamegraphOptions(
        title=title + (", callers of every function" if arguments.inverted else ""),
        unit=arguments.unit,
        subtitle=f"{total:,} {arguments.unit} in {len(stacks):,} stacks",
        us_per_query=arguments.us_per_query,
        min_width_px=arguments.min_width,
        width=arguments.width,
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
    known = (".svg", ".html", ".speedscope.json", ".firefox.json")
    if str(out) != "-" and not str(out).endswith(known):
        raise UsageError(f"{out}: the end of the name says what is written", mend=f"one of {', '.join(known)}")
    if str(out) != "-" and out.exists() and not arguments.force:
        raise UsageError(f"{out} is there already", means="nothing is overwritten unasked", mend="--force, or -o OTHER")
    return out


def _read(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from None


def _stacks(data: bytes, arguments: argparse.Namespace) -> list[Stack]:
    stacks = read_folded(data.split(b"\n"))
    if arguments.rules is None:
        return stacks
    argv = [
        stackfold_binary(),
        "categories",
        "--rules",
        arguments.rules,
        "--view",
        arguments.view,
        "--format",
        "stacks",
        "-",
    ]
    output = capture(argv, timeout=600, stdin=data).require("stackfold categories")
    # There are no counts of samples in folded text: they would be printed as 0.
    return [
        Stack(stack.frames, stack.weight, None, stack.category, stack.anchor_depth)
        for stack in read_categorised(output.stdout.split(b"\n"))
    ]
