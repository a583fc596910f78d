"""Names with control characters in them: written out where people read, untouched where programs do."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from folding.stackfold import stackfold_binary
from tests.folding.recordings import run

# Sets the title of a terminal's window; clears it with a C1 character, and with a byte that is no UTF-8.
NAME = b"\x1b]0|owned\x07\xc2\x9b2J\x9b2J"
SHOWN = b"\\u001b]0|owned\\u0007\\u009b2J"
STACK = b"t;" + NAME
FOLDED = STACK + b" 7\n"


def text(event: bytes = b"cpu-clock", comm: bytes = b"t") -> bytes:
    return comm + b" 1/2 [000] 1.000001:   7 " + event + b": \n\t 401136 " + NAME + b" (/bin/t)\n\n"


def on_terminal(*arguments: str | Path, stdin: bytes) -> tuple[int, bytes]:
    """Exit code and what a terminal got, on which standard output and standard error are."""
    ours, theirs = pty.openpty()
    argv = [stackfold_binary(), *map(str, arguments)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        assert process.stdin is not None
        # A command that refuses its arguments ends before it reads.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(stdin)
            process.stdin.close()
        got = b""
        try:
            while piece := os.read(ours, 1 << 16):
                got += piece
        except OSError:
            pass  # the other side is closed
        os.close(ours)
        return process.wait(), got.replace(b"\r\n", b"\n")


def controls(printed: bytes) -> set[str]:
    return {c for c in printed.decode("utf-8", "surrogateescape") if not c.isprintable() and c != "\n"}


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-q", "--all-annotations"],
        ["--comm", "no\x1b[31mbody"],
        ["--from", "no\x1b[31mframe"],
        ["--event", "no\x1b[31mevent"],
        ["-o", "/no/such\x1b[31m/directory"],
        ["/no/such\x1b[31m/file"],
    ],
    ids=lambda arguments: " ".join(arguments) or "fold",
)
def test_a_terminal_gets_no_control_characters(arguments: list[str]) -> None:
    for event in (b"cpu-clock", b"cpu\x1b[31m-clock"):
        for damaged in (b"", b"no \x1b]0;line\x07 of perf\n"):
            _, got = on_terminal(*arguments, stdin=damaged + text(event))
            assert controls(got) == set(), got
    # The list of events that cannot be folded at once.
    code, got = on_terminal(stdin=text() + text(b"\x1b[31mcycles"))
    assert code == 2 and b"\\u001b[31mcycles" in got and controls(got) == set(), got


def test_folded_text_and_tables_on_a_terminal_have_names_written_out() -> None:
    for arguments in (
        ["-q"],
        ["categories"],
        ["categories", "--format", "stacks"],
        ["categories", "--format", "tsv"],
    ):
        code, got = on_terminal(*arguments, stdin=FOLDED.replace(b"t;", b"t;rocksdb::"))
        assert code == 0 and controls(got) <= {"\t"}, got
        assert SHOWN in got or "tsv" in arguments, got


def test_json_stays_json_on_a_terminal() -> None:
    stdin = FOLDED.replace(b"t;", b"t;rocksdb::").replace(b"\x9b2J 7", b" 7")
    code, got = on_terminal("categories", "--format", "json", stdin=stdin)
    assert code == 0 and controls(got) == set()
    assert json.loads(got)["other_frames"][0]["frame"] == "rocksdb::\x1b]0|owned\x07\u009b2J"


def test_pipes_and_files_get_data_as_it_is(tmp_path: Path) -> None:
    out = tmp_path / "out.folded"
    assert run("-q", stdin=FOLDED).stdout == FOLDED
    assert run("-q", "-o", out, stdin=FOLDED).returncode == 0
    assert out.read_bytes() == FOLDED
    stacks = run("categories", "--format", "stacks", stdin=FOLDED).stdout
    assert stacks == b"other\t-1\t0\t7\t" + STACK + b"\n"
    # A table is no data: nobody wants its names to act on the terminal they are looked at later.
    table = run("categories", stdin=FOLDED.replace(b"t;", b"t;rocksdb::"))
    # What is no UTF-8 is a replacement character there.
    assert SHOWN + "\N{REPLACEMENT CHARACTER}2J".encode() in table.stdout and controls(table.stdout) == set()


def test_pprof_is_not_written_to_a_terminal() -> None:
    code, got = on_terminal("-q", "--format", "pprof", stdin=FOLDED)
    assert code == 2 and b"not written to a terminal: -o out.pb.gz" in got, got
