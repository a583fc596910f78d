"""Commands that a message suggests can be pasted into a shell, whatever files are called; what a packed run holds."""

from __future__ import annotations

import ast
import html
import shlex
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ground.results.files import Files
from ground.results.record import Target
from ground.results.run import Run
from ground.system.unpack import unpack_into
from ioflame.cli import main
from ioflame.commands.outcome import shown_command
from ioflame.present.pack import ENDING
from tests.ioflame.store.stored import made_run
from tests.places import shipped
from tests.viz.runs import record

# Expressions in suggested commands that are no file names and no names users choose: numbers, and words of ours.
WORDS = {
    "client", "crate", "fitting", "keys", "known", "latency.device.name", "least", "most", "name", "option",
    "options.threads", "moving[0]", "package", "pid", "pids[0]", "process.pid", "recording.name",
    "self.about.versions", "self.pid", "wanted", "what", "where", "Files.PERF_DATA", "_MOST_SAMPLE",
    "releases.name", "releases.library", "releases.listing", "since", "machine", "classifier",
    "attribution.device.name",
}  # fmt: skip


def unquoted(source: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and expression of what a suggestion (`mend`) takes in and neither quotes nor is known to need no quotes."""
    for call in ast.walk(source):
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
    told = 'E("x", mend=f"rm {path}")\nCheck(1, 2, 3, 4, f"df {a.b} {shlex.quote(c)}")\nE(mend=Setting.OUT.to(d))'
    assert list(unquoted(ast.parse(told))) == [(1, "path"), (2, "a.b"), (3, "d")]
    assert {str(path): places for path, module in shipped().items() if (places := list(unquoted(module)))} == {}


NAME = "it's  a $HOME"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = Run.create(tmp_path / NAME, record())
    made.path(Files.FOLDED).write_bytes(b"db_bench;main 600\n")
    made.path(Files.SAMPLE_COUNTS).write_bytes(b"db_bench;main 6\n")
    return made


def test_the_command_that_makes_a_run_again_is_named_as_a_shell_finds_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run.directory.parent)
    assert shlex.split(shown_command("analyse", run))[-2:] == ["analyse", run.directory.name]
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


def test_a_run_directory_is_in_it_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = made_run(tmp_path / "runs", 4711)
    # Of what is redacted there are no symbols beside it, which take seconds to be compressed.
    run.record.target = Target("--pid 4711", "p", [4711], redacted=True)
    run.save()
    out = tmp_path / "run.tar.xz"
    assert main(["pack", str(run.directory), "-o", str(out)]) == 0
    said = capsys.readouterr().out
    assert f"there:   ioflame analyse {out.name}" in said
    with tarfile.open(out) as archive:
        unpack_into(archive, tmp_path / "there")
    there = tmp_path / "there" / run.directory.name
    for path in (path for path in run.directory.rglob("*") if path.is_file()):
        assert (there / path.relative_to(run.directory)).read_bytes() == path.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "there", out.name}  # no scratch is left


@pytest.mark.parametrize("name", ["run.zip", "run.tar.xz"])
def test_an_archive_of_another_kind_and_one_that_is_there_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    run = made_run(tmp_path / "runs", 4711)
    out = tmp_path / name
    out.write_bytes(b"mine")
    assert main(["pack", str(run.directory), "-o", str(out)]) == 2
    said = capsys.readouterr().err
    assert str(out) in said and ("--force" in said or f"{out}{ENDING}" in said)
    assert out.read_bytes() == b"mine"
