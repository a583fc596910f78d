"""Names that this host lacks, asked of the servers of debuginfod by its own client, which keeps them in its cache."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ground.errors import HostError, IoflameError, UsageError
from ground.system.elf import build_id, debug_file, sections
from ground.system.process import capture
from ground.text.progress import Reporter

_CLIENT = "debuginfod-find"
# For one file: a server that has it not says so at once, and one that hangs is not waited for.
_SECONDS = 120
_MOST_BYTES = 2 << 30


@dataclass(frozen=True)
class Fetched:
    """path: of a mapped file. file: its debug information in the client's cache, or None and `why`"""

    path: str
    file: Path | None
    why: str = ""


def fetch_names(objects: Iterable[str], reporter: Reporter) -> list[Fetched]:
    """Of the files that have no full table of symbols, neither in themselves nor in a debug file that is here.

    UsageError where no server is named, HostError without the client.
    """
    if not os.environ.get("DEBUGINFOD_URLS"):
        raise UsageError(
            "DEBUGINFOD_URLS is not set",
            means="it names the servers that are to be asked: your distribution's, or your own; see debuginfod(8)",
            mend="DEBUGINFOD_URLS=https://<server> ioflame analyse RUN --debuginfod",
        )
    if shutil.which(_CLIENT) is None:
        raise HostError(f"{_CLIENT} is not installed", mend="sudo apt-get install debuginfod   (of elfutils)")
    fetched = []
    for path, number in sorted(_nameless(objects)):
        with reporter.stage(f"ask for the names of {path}", _SECONDS):
            fetched.append(_fetched(path, number))
    return fetched


def _nameless(objects: Iterable[str]) -> Iterable[tuple[str, str]]:
    for path in objects:
        with contextlib.suppress(OSError):
            content = Path(path).read_bytes() if path.startswith("/") else b""
            has_names = any(section.name == ".symtab" and section.in_file for section in sections(content))
            number = build_id(content)
            if number and not has_names and debug_file(number) is None:
                yield path, number


def _fetched(path: str, number: str) -> Fetched:
    # We start other programs with an empty DEBUGINFOD_URLS; this one gets the servers and limits of time and size.
    told = [f"DEBUGINFOD_URLS={os.environ['DEBUGINFOD_URLS']}"]
    told += [f"DEBUGINFOD_MAXTIME={_SECONDS}", f"DEBUGINFOD_MAXSIZE={_MOST_BYTES}"]
    try:
        done = capture(["env", *told, _CLIENT, "debuginfo", number], timeout=2 * _SECONDS)
    except IoflameError as error:
        return Fetched(path, None, error.what)
    file = Path(done.text.strip())
    if done.returncode == 0 and file.is_file():
        return Fetched(path, file)
    return Fetched(path, None, done.errors.splitlines()[-1] if done.errors else f"exit code {done.returncode}")
