"""Streams that people read: nothing that is printed steers a terminal, and names are guessed from what was written."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from ground.errors import MeasurementError
from ground.text.columns import fold_line
from ground.text.nearest import did_you_mean
from ground.text.progress import Reporter
from ground.text.terminal import ReaderGoneError, colours_of, on_terminal, steering_stderr


def test_escape_sequences_are_printed_as_text_and_the_stream_is_its_own_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = sys.stdout
    with on_terminal():
        print("a\x1b]0;title\x07b")
        print("c\x1b[2J", file=sys.stderr)
        print("moving\x1b[2K", file=steering_stderr())
    assert sys.stdout is before
    said = capsys.readouterr()
    assert "\x1b" not in said.out and "\x07" not in said.out and "title" in said.out
    assert said.err.count("\x1b") == 1 and said.err.endswith("moving\x1b[2K\n")


@pytest.mark.parametrize(
    ("terminal", "environment", "colours"),
    [
        (True, {"TERM": "xterm"}, "STANDARD"),
        (True, {"TERM": "screen-256color", "FORCE_COLOR": "0"}, "EIGHT_BIT"),
        (True, {"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "TRUECOLOR"),
        (True, {"TERM": "xterm", "NO_COLOR": "1", "FORCE_COLOR": "1"}, None),
        (True, {"TERM": "xterm", "NO_COLOR": "", "CLICOLOR": "1"}, "STANDARD"),
        (True, {"TERM": "xterm", "CLICOLOR": "0"}, None),
        (True, {"TERM": "dumb"}, None),
        (True, {}, None),
        (False, {"TERM": "xterm", "CLICOLOR": "1", "COLORTERM": "truecolor"}, None),
        (False, {"FORCE_COLOR": "1"}, "STANDARD"),
        (False, {"TERM": "xterm-256color", "CLICOLOR_FORCE": "1"}, "EIGHT_BIT"),
    ],
)
def test_colour_is_for_terminals_that_want_it(
    terminal: bool, environment: dict[str, str], colours: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    assert colours_of(stream, environment) == colours


def test_colour_is_put_into_what_is_escaped_already(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with on_terminal(lambda text, colours: f"{colours}\x1b[31m{text}\x1b[0m"):
        sys.stdout.write("a\x1b[2J")
    assert capsys.readouterr().out == "STANDARD\x1b[31ma\\x1b[2J\x1b[0m"


def test_a_reader_that_goes_away_is_no_error_and_a_full_disk_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w", encoding="utf-8") as pipe, Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", pipe)
        with pytest.raises(ReaderGoneError), on_terminal():
            print("words", flush=True)
        monkeypatch.setattr(sys, "stdout", full)
        with (
            pytest.raises(MeasurementError, match="standard output cannot be written to: No space left"),
            on_terminal(),
        ):
            print("words", flush=True)


def test_standard_error_that_fails_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stderr", full)
        with on_terminal():
            print("words", file=sys.stderr, flush=True)


def test_what_an_encoding_lacks_is_a_question_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    with on_terminal():
        print("\u2588 bar", flush=True)
    assert raw.getvalue() == b"? bar\n"


def test_a_name_of_a_function_is_one_word_also_where_it_was_folded_before() -> None:
    name = "std::enable_if<(N < 2), void>::type rocksdb::(anonymous namespace)::Apply<int, char>(int, char const*)"
    line = (
        f"its leaf frames: read_[k] 9.10%, {name} 2.40%, operator->(A const&) 1.00%, a few (of many others), and more"
    )
    once = fold_line(line, 60, 2)
    assert name in [part.strip() for part in once.split("\n")], once
    for width in (100, 60, 40):
        again = "\n".join(fold_line(part, width, 2) for part in once.split("\n"))
        assert any(name in part for part in again.split("\n")) and "operator->(A const&)" in again, again
        assert again.split() == line.split() and "\u00a0" not in again
    # A remark is no list of arguments, and a bracket that nothing closes no name.
    assert fold_line("aaaa bbbb (cc dd) <ee ff> g(h i", 20, 0).split("\n") == ["aaaa bbbb (cc dd)", "<ee ff> g(h i"]
    assert fold_line("is x(y and more words", 12, 0).split("\n")[0] == "is x(y and"


def screen(written: str, width: int) -> list[str]:
    """The lines of a terminal that writes on in the next one once its last column is full."""
    lines, at = [""], 0
    for character in written:
        if character == "\n":
            lines.append("")
            at = 0
        elif character == "\r":
            at = 0
        else:
            if at == width:
                lines.append("")
                at = 0
            lines[-1] = lines[-1][:at].ljust(at) + character + lines[-1][at + 1 :]
            at += 1
    return [line.rstrip() for line in lines]


def test_a_line_beside_what_others_write_is_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return width is not None

    for width in (40, None):
        stream = Terminal()
        monkeypatch.setattr("sys.stderr", stream)
        monkeypatch.setenv("COLUMNS", "40")
        reporter = Reporter(moves=False)
        with reporter.beside_others():
            stream.write("... finished 1000 ops              \r" if width else "... finished 1000 ops\r")
            reporter.warn("one")
            stream.write("loading: ")
            reporter.warn("two")
            stream.write("done\r")
        reporter.warn("after it")
        lines = [line for line in screen(stream.getvalue(), 40) if line]
        before, last = ([], []) if width else (["... finished 1000 ops"], ["done"])
        # A terminal's line that is written over anyway is ours; nothing else is lost.
        assert lines == [*before, "warning: one", "loading:", "warning: two", *last, "warning: after it"]


@pytest.mark.parametrize(
    ("name", "answer"),
    [("readrandon", "did you mean readrandom? "), ("ReadRandom", "did you mean readrandom? "), ("x", "")],
)
def test_a_name_that_is_nearly_one_is_answered_with_it(name: str, answer: str) -> None:
    assert did_you_mean(name, ["overwrite", "readrandom"]) == answer
