"""Names that a server of debuginfod has: a real one, on a port of its own, and its own client."""

from __future__ import annotations

import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from folding.symbol_fetch import fetch_names
from ground.errors import UsageError
from ground.text.progress import Reporter
from tests.folding.recordings import direct, record
from tests.programs import FRAMES, compiled
from tests.until import until

_SOURCE = """
static volatile unsigned sink;
__attribute__((noinline)) static void the_work_of_it(void) { for (int i = 0; i < 1 << 16; i++) sink = sink * 31 + i; }
int main(void) { for (int i = 0; i < 4000; i++) { the_work_of_it(); sink = sink + 1; } }
"""
_QUIET = Reporter(quiet=True)


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(f"{url}/buildid/{'0' * 40}/debuginfo", timeout=10)
    except urllib.error.HTTPError as error:
        return error.code == 404
    except OSError:
        return False
    return True


def _scanned(url: str) -> bool:
    """Whether it has looked through its directory, by its own account."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        return any(line.startswith(b"thread_work_total") and b"traverse" in line for line in answer)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Its address, and a directory with what it serves."""
    served = tmp_path / "served"
    served.mkdir()
    compiled(_SOURCE, served / "program", *FRAMES, "-g", "-Wl,--build-id")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    argv = ["debuginfod", "-p", str(port), "-d", str(tmp_path / "names.sqlite"), "-F", str(served)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            until(lambda: _answers(url) and _scanned(url), process)
            yield url, served / "program"
        finally:
            process.kill()


@pytest.mark.needs("perf", "debuginfod")
@pytest.mark.long
def test_names_come_from_a_server_that_is_named_and_stay(
    server: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, full = server
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "cache"))
    monkeypatch.setenv("DEBUGINFOD_URLS", url)
    program, unknown = tmp_path / "program", tmp_path / "unknown"
    for stripped, of in ((program, full), (unknown, compiled("int main(void) {}", tmp_path / "x", "-Wl,--build-id"))):
        shutil.copy(of, stripped)
        subprocess.run(["strip", stripped], check=True)
    data = record(tmp_path / "perf.data", ["-N", "-e", "cpu-clock", "-F", "999", "-g"], program)
    assert not any(b"the_work_of_it" in stack for stack in direct(data))
    with_names, without = fetch_names([str(program), str(unknown), "[kernel.kallsyms]", str(full)], _QUIET)
    assert with_names.path == str(program) and with_names.file is not None
    assert without.path == str(unknown) and without.file is None and without.why
    assert any(stack.endswith(b";the_work_of_it") for stack in direct(data))
    # What is here is not asked for again.
    assert [one.path for one in fetch_names([str(program)], _QUIET)] == []


def test_nothing_is_asked_where_no_server_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEBUGINFOD_URLS", raising=False)
    with pytest.raises(UsageError, match="DEBUGINFOD_URLS is not set"):
        fetch_names(["/bin/true"], _QUIET)
