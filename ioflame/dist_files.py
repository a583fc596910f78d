"""Shell completion and man pages, from the parser, as a prefix has them: `python -m ioflame.dist_files PREFIX`.

`ioflame/dist.sh` puts them into the wheel, so that pip and pipx install them beside the program, and `ioflame/setup.sh`
into .venv of a checkout.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import shtab

from ground.settings import Setting
from ioflame import __version__
from ioflame.cli import build_parser
from ioflame.present.parts import all_parts
from workloads.experiment import experiment_names
from workloads.registry import DEFAULT_ENGINE, engine_named, engine_names
from workloads.scales import scales

_COMPLETION = {
    "bash": "share/bash-completion/completions/ioflame",
    "zsh": "share/zsh/site-functions/_ioflame",
    "fish": "share/fish/vendor_completions.d/ioflame.fish",
}
# What an argument is a path to, by how the help calls it.
_PATHS = {"RUN": shtab.DIRECTORY, "DIR": shtab.DIRECTORY, "FILE": shtab.FILE, "PATH": shtab.FILE}


def write_files(prefix: Path) -> None:
    parser, about = build_parser()
    files = {f"share/man/man1/{name}.1": page for name, page in man_pages(parser, about).items()}
    _prepare(parser, about)
    files |= {place: shtab.complete(parser, shell) for shell, place in _COMPLETION.items()}
    for place, text in files.items():
        path = prefix / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


# ---- completion -----------------------------------------------------------------------------------------------------


def _prepare(parser: argparse.ArgumentParser, about: Mapping[str, str]) -> None:
    """Leaves in the parser what shtab reads: the values that have names, the arguments that are paths, and a line on
    each command. It is good for nothing else then.
    """
    engine = engine_named(DEFAULT_ENGINE)
    values: dict[str, Sequence[str]] = {
        "workload": list(engine.workloads()),
        "config": list(engine.configurations()),
        "engine": list(engine_names()),
        "scale": list(scales()),
        "callgraph": Setting.CALLGRAPH.forms[0].choices,
        "part": list(all_parts()),
        "name": [*engine.workloads(), *engine.steps(), *experiment_names()],
    }
    for one in _tree(parser):
        one.description = about.get(one.prog.removeprefix("ioflame "), one.description)
    for action in (action for one in _tree(parser) for action in _actions(one)):
        if action.choices is None and action.dest in values:
            action.choices = values[action.dest]
        elif action.metavar in _PATHS:
            action.complete = _PATHS[action.metavar]  # type: ignore[attr-defined]


class _Collector(argparse.HelpFormatter):
    """Prints nothing, and collects the arguments of a parser: argparse passes them only to its formatter."""

    def __init__(self, found: list[argparse.Action], prog: str) -> None:
        super().__init__(prog)
        self._found = found

    def add_argument(self, action: argparse.Action) -> None:
        self._found.append(action)


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    found: list[argparse.Action] = []
    _formatted(parser, lambda prog: _Collector(found, prog))
    return found


def _tree(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parser, those of its commands, and theirs."""
    yield parser
    for action in _actions(parser):
        if isinstance(action.choices, dict):
            for one in action.choices.values():
                yield from _tree(one)


def _formatted(parser: argparse.ArgumentParser, formatter: object) -> str:
    """The help as `formatter`, a class or what makes one of a program's name, writes it."""
    before = parser.formatter_class
    parser.formatter_class = formatter  # type: ignore[assignment]
    try:
        return parser.format_help()
    finally:
        parser.formatter_class = before


# ---- man pages ------------------------------------------------------------------------------------------------------


def man_pages(parser: argparse.ArgumentParser, about: Mapping[str, str]) -> dict[str, str]:
    """A page for each command, by name: `ioflame-ebpf-iolat`."""
    os.environ["COLUMNS"] = "80"  # the width of the usage
    parsers = {one.prog.replace(" ", "-"): one for one in _tree(parser)}
    pages = {}
    for name, one in parsers.items():
        command = name.partition("-")[2]
        does = about.get(command, one.description or "").partition("\n")[0] if command else "profiles storage engines"
        below = [other for other in parsers if other != name and (other.startswith(f"{name}-") or name == "ioflame")]
        see = ", ".join(f"\\fB{_roff(other)}\\fR(1)" for other in (below or ["ioflame"]))
        usage = one.format_usage().removeprefix("usage: ")
        pages[name] = "\n".join([
            f'.TH "{name.upper()}" "1" "" "ioflame {__version__}" "User Commands"',
            ".SH NAME", f"{_roff(name)} \\- {_roff(does)}",
            ".SH SYNOPSIS", ".nf", _roff(usage.rstrip()), ".fi",
            ".SH DESCRIPTION", _formatted(one, _Roff).strip(),
            ".SH SEE ALSO", see, "",
        ])  # fmt: skip
    return pages


class _Roff(argparse.HelpFormatter):
    """The parts of a help as roff. Texts keep their layout: they have examples and tables."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog)
        self._lines: list[str] = []
        self._in_section = False

    def add_usage(self, *_given: object, **_more: object) -> None:
        pass

    def add_text(self, text: str | None) -> None:
        if text:
            after_options = not self._in_section and any(line.startswith(".SH ") for line in self._lines)
            self._lines += [".SH NOTES" if after_options else ".PP", ".nf", _roff(text.strip()), ".fi"]

    def start_section(self, heading: str | None) -> None:
        self._in_section = True
        self._lines.append(f".SH {(heading or '').upper()}")

    def end_section(self) -> None:
        self._in_section = False
        if self._lines[-1].startswith(".SH "):
            self._lines.pop()  # it was empty

    def add_argument(self, action: argparse.Action) -> None:
        value = action.metavar or action.dest.upper()
        names = ", ".join(f"\\fB{_roff(name)}\\fR" for name in action.option_strings)
        given = "" if action.nargs == 0 else f"\\fI{_roff(value if isinstance(value, str) else ' '.join(value))}\\fR"
        self._lines += [".TP", f"{names} {given}".strip()]
        self._lines.append(_roff((action.help or "") % {**vars(action), "prog": self._prog}) or "\\&")

    def format_help(self) -> str:
        return "\n".join(self._lines)


def _roff(text: str) -> str:
    """`text` as roff prints it unchanged: a dot or a quote that begins a line is no request."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga").split("\n")
    return "\n".join(f"\\&{line}" if line.startswith(".") else line for line in lines)


if __name__ == "__main__":
    write_files(Path(sys.argv[1]))
