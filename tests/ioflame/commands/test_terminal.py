"""What is printed cannot steer a terminal, and one that is closed, full or of another encoding is no traceback."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.results.files import Files
from ground.results.run import Run
from ground.text.columns import escaped
from ioflame.cli import main
from tests.places import ROOT
from tests.viz.runs import record

TITLE = "\x1b]0;pwned\x07"
PLAIN = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def ioflame(arguments: str, *words: str | Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """A command line of a shell: `ioflame ARGUMENTS`, with `words` as $1 and so on."""
    script = f'exec "$0" -m ioflame.cli {arguments}'
    return subprocess.run(
        ["sh", "-c", script, sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )


def on_terminal(*words: str | Path, **environment: str) -> bytes:
    """What a command line, which succeeds, shows on a terminal of its own."""
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "ioflame.cli", *words]
    given = {**os.environ, "TERM": "xterm", **environment}
    with subprocess.Popen(argv, cwd=ROOT, env=given, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # every end of it is closed
            while chunk := os.read(ours, 65536):
                shown += chunk
    os.close(ours)
    assert process.returncode == 0, shown
    return shown


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run without a recording, whose words are not all of ASCII."""
    host = {"cpus": "2", "cpu": "Prozessor\u00fc", "kernel": "6.1", "distribution": "Debian"}
    return Run.create(tmp_path, record(profile=None, checks=[], windows=[], host=host))


@pytest.mark.parametrize(
    ("arguments", "words"), [("list >/dev/full", b"No space left"), ("list --help >&-", b"Bad file descriptor")]
)
def test_an_output_that_cannot_be_written_to_is_an_error_of_its_own(arguments: str, words: bytes) -> None:
    done = ioflame(arguments)
    assert done.returncode == 1
    assert done.stderr.startswith(b"ioflame: standard output cannot be written to: " + words)
    assert b"fix:" in done.stderr and b"Traceback" not in done.stderr and b"ignored" not in done.stderr


def test_a_reader_that_goes_away_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-m", "ioflame.cli", "list"]
    done = subprocess.run(words, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


# A command that is interrupted while it makes a dataclass, as a module that is loaded late does, and says so.
_LATE = """
import sys
import ioflame.cli as cli
class Arguments:
    @staticmethod
    def run(_):
        try:
            exec("raise KeyboardInterrupt")
        except KeyboardInterrupt:
            return 130
cli._parsed = lambda *_: Arguments()
sys.exit(cli.main(["runs"]))
"""


def test_an_interrupt_while_a_module_is_loaded_ends_with_our_exit_code(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(_LATE)
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = subprocess.run([sys.executable, "-m", "late"], env={**os.environ, "PYTHONPATH": path}, check=False)
    assert done.returncode == 130


def test_progress_that_nobody_can_be_told_ends_nothing(run: Run) -> None:
    done = ioflame('analyse "$1" <&- 2>&-', run.directory)
    assert done.returncode == 0
    assert run.path(Files.REPORT).exists() and run.directory.name.encode() in done.stdout


def test_no_file_of_ours_gets_the_number_of_a_closed_stream(run: Run) -> None:
    """An output that is closed leaves its number to the next file opened: results would be printed into that."""
    before = run.path(Files.RECORD).read_bytes()
    assert ioflame('analyse "$1" >&- 2>&- <&-', run.directory).returncode == 1
    assert json.loads(run.path(Files.RECORD).read_bytes()).keys() == json.loads(before).keys()
    assert run.path(Files.SUMMARY).read_text(encoding="utf-8").startswith("readrandom")


def test_files_are_utf_8_whatever_the_locale(run: Run) -> None:
    done = ioflame('analyse -v "$1"', run.directory, **PLAIN)
    assert b"Traceback" not in done.stderr and run.path(Files.REPORT).exists()
    assert "Prozessor\u00fc" in run.path(Files.SUMMARY).read_text(encoding="utf-8")
    assert b"Prozessor?" in done.stdout


def test_errors_do_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ("report", "analyse", "explain", "flamegraph", "profile --scale", "experiment"):
        assert main([*arguments.split(), TITLE]) == 2
        told = capsys.readouterr().err
        assert "\\x1b]0;pwned\\x07" in told
        assert "\x1b" not in told and "\x07" not in told


def test_results_do_not_steer_the_terminal(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    named = run.directory.with_name(TITLE)
    run.directory.rename(named)
    assert main(["report", str(named)]) == 0
    assert "\\x1b]0;pwned\\x07/report.html" in capsys.readouterr().out


def test_a_name_in_the_moving_line_does_not_steer_the_terminal(tmp_path: Path) -> None:
    """On a terminal: the line's own escape sequences arrive, those of the file's name are spelt out."""
    (tmp_path / f"{TITLE}.folded").write_text("a;b 1\n")
    shown = on_terminal("flamegraph", tmp_path / f"{TITLE}.folded")
    assert b"\x1b[" in shown  # it is a moving line
    assert b"\\x1b]0;pwned\\x07" in shown and b"\x1b]0;" not in shown and b"\x07" not in shown


@given(st.text())
def test_json_stays_json_of_the_same_meaning(text: str) -> None:
    for ascii_only in (True, False):
        given_text = json.dumps({"name": text}, ensure_ascii=ascii_only)
        assert json.loads(escaped(given_text)) == {"name": text}
    assert not any(char in escaped(text) for char in "\x1b\x9b\x07\x08\r\x7f\u202e")
