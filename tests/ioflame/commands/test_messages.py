"""Commands that a message suggests can be pasted into a shell, whatever the files are called."""

from __future__ import annotations

import ast
import html
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from ground.results.files import Files
from ground.results.run import Run
from ioflame.cli import main
from ioflame.commands.outcome import shown_command
from tests.places import ROOT
from tests.viz.runs import record

ROOMS = ("ioflame", "workloads", "collectors", "ebpf", "folding", "viz")
# Expressions in suggested commands that are no file names and no names users choose: numbers, and words of ours.
WORDS = {
    "client", "crate", "fitting", "keys", "known", "latency.device.name", "least", "most", "name", "option",
    "options.threads", "moving[0]", "package", "pid", "pids[0]", "process.pid", "recording.name",
    "self.about.versions", "self.pid", "wanted", "what", "where", "Files.PERF_DATA", "_MOST_SAMPLE",
    "releases.name", "releases.library", "releases.listing", "since", "machine", "classifier",
    "whose.device.name",
}  # fmt: skip


def unquoted(source: str) -> Iterator[tuple[int, str]]:
    """Line and expression of what a suggestion (`mend`) takes in and neither quotes nor is known to need no quotes."""
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call):
            continue
        mends = [keyword.value for keyword in call.keywords if keyword.arg == "mend"]
        if isinstance(call.func, ast.Name) and call.func.id == "Check":
            mends += call.args[4:5]
        for part in (part for mend in mends for one in ast.walk(mend) for part in taken_in(one)):
            text = ast.unparse(part)
            if text in WORDS or text.startswith(("shlex.", "max(")) or ".join(" in text:
                continue
            # Of two constants; and a setting, whose value is looked at by itself.
            if not isinstance(part, ast.IfExp | ast.Constant | ast.JoinedStr) and not text.startswith("Setting."):
                yield part.lineno, text


def taken_in(node: ast.AST) -> list[ast.expr]:
    """What a string is filled with, and the value of a setting."""
    if isinstance(node, ast.FormattedValue):
        return [node.value]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "to":
        return node.args
    return []


def test_no_suggested_command_takes_in_a_name_unquoted() -> None:
    assert list(
        unquoted(
            'E("x", mend=f"rm {path}")\nCheck(1, 2, 3, 4, f"df {a.b} {shlex.quote(c)}")\nE(mend=Setting.OUT.to(d))'
        )
    ) == [
        (1, "path"),
        (2, "a.b"),
        (3, "d"),
    ]
    sources = [path for room in ROOMS for path in sorted((ROOT / room).glob("**/*.py"))]
    found = {str(path.relative_to(ROOT)): list(unquoted(path.read_text(encoding="utf-8"))) for path in sources}
    assert {path: places for path, places in found.items() if places} == {}


NAME = "it's  a $HOME"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = Run.create(tmp_path / NAME, record())
    made.path(Files.FOLDED).write_bytes(b"db_bench;main 600\n")
    made.path(Files.SAMPLE_COUNTS).write_bytes(b"db_bench;main 6\n")
    return made


def test_the_command_that_makes_a_run_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run.directory.parent)
    assert shlex.split(shown_command("analyse", run))[-2:] == ["analyse", run.directory.name]


def test_a_command_beside_the_user_is_named_as_a_shell_finds_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run.directory.parent)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("sys.argv", ["./ioflame"])
    assert shlex.split(shown_command("analyse", run))[0] == "./ioflame"


def test_the_command_in_a_pages_note(run: Run) -> None:
    empty = '{"view":"owner","rules_checked":[],"total_weight":5,"rows":[],"other_frames":[]}'
    run.path(Files.CATEGORIES).write_text(empty)
    assert main(["report", str(run.directory)]) == 0
    page = html.unescape(run.path(Files.REPORT).read_text(encoding="utf-8"))
    assert f"ioflame analyse {shlex.quote(str(run.directory))}" in page


def test_the_run_that_was_meant(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.point_latest()
    assert main(["analyse", str(run.directory.parent)]) == 2
    assert f"such as {shlex.quote(str(run.directory.parent / 'latest'))}" in capsys.readouterr().err


def test_the_command_that_opens_a_pprof(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    out = run.directory / "cpu.pb.gz"
    assert main(["flamegraph", str(run.path(Files.FOLDED)), "-o", str(out)]) == 0
    assert f"go tool pprof -http=: {shlex.quote(str(out))})" in capsys.readouterr().out
