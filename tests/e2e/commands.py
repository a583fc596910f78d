"""How end-to-end tests use the command line: as a process, and within the windows of one."""

from __future__ import annotations

import contextlib
import http.server
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from ground.results.record import Window
from ground.results.run import Run, open_run
from ground.system.descendants import descendants
from ground.system.held_process import HeldProcess
from tests.conftest import Ioflame
from tests.e2e.explained import explained
from tests.recorded_run import KEYS, Measured
from tests.until import until

# Before a command line: as a user who may look into no process of root's.
AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def measured(out: Path, command: str, *words: str | Path, prefix: tuple[str, ...] = ()) -> Measured:
    """A command that measures, to its end."""
    ioflame = Ioflame()
    code, said, err = ioflame.run(command, "--out", out, *words, prefix=prefix)
    # Of a run that could not be made its error is the last that it said.
    assert code in (0, 1) and (out / "latest").exists() and ioflame.left_behind() == [], err + said
    return Measured(code, said, err, open_run((out / "latest").resolve()))


def attached(out: Path, pids: Sequence[int], *words: str | Path, prefix: tuple[str, ...] = ()) -> Measured:
    """`ioflame attach` to processes that run, to its end."""
    return measured(out, "attach", *(f"--pid={pid}" for pid in pids), *words, prefix=prefix)


@contextlib.contextmanager
def service(argv: Sequence[str | Path], **more: object) -> Iterator[subprocess.Popen[bytes]]:
    """A program that somebody else started, and that ends with the test."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    process = subprocess.Popen(argv, **{**streams, **more})  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def ticks(pid: int) -> int:
    """Of CPU in user mode, 10 ms each."""
    return int((HeldProcess(pid).stat() or [b"0"] * 12)[11])


def reported(report: Path, lines: int = 3) -> bool:
    """Whether db_bench has written so many lines of its report, the first of which is the head."""
    return report.read_text(encoding="ascii").count("\n") >= lines


@contextlib.contextmanager
def reading(database: Path, report: Path) -> Iterator[subprocess.Popen[bytes]]:
    """db_bench as a profile would start it, but for an hour and with a report of its own, which has begun."""
    (argv,) = explained("readrandom", "--scale=smoke", f"--num-keys={KEYS}", f"--db-dir={database}")
    own = {"--duration": "3600", "--report_file": str(report)}
    argv = [f"{name}={own[name]}" if (name := word.partition("=")[0]) in own else word for word in argv]
    with service(argv) as process:
        until(lambda: reported(report), process)
        yield process
        assert process.poll() is None, "whatever watched it has ended it"


def programs_below(process: subprocess.Popen[str], name: str) -> list[int]:
    """The processes of this program that a command has started, and that have not ended."""
    found = []
    for pid in descendants([process.pid]):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/exe").readlink().name == name:
                found.append(pid)
    return found


def db_bench_of(process: subprocess.Popen[str], word: str) -> int:
    """The db_bench below a command that was started with this word, as soon as it runs."""
    while process.poll() is None:
        for pid in descendants([process.pid]):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if word.encode() in words and words[0].endswith(b"db_bench"):
                    return pid
    pytest.fail(f"it ended without a db_bench with {word}")


def wait_for(process: subprocess.Popen[str], *texts: str) -> None:
    """Reads the progress until it has said each of them in turn; no clock decides."""
    assert process.stderr is not None
    seen = ""
    for text in texts:
        for line in process.stderr:
            seen += line
            if text in line:
                break
        else:
            pytest.fail(f"{text!r} never came: {seen}")


@contextlib.contextmanager
def held(process: subprocess.Popen[str]) -> Iterator[None]:
    """Within: the process is stopped, so that it gets no further, however long that takes; its children run on."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    yield
    process.send_signal(signal.SIGCONT)


def script(path: Path, text: str) -> Path:
    """A program of a few lines of shell."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def perf_that(place: Path, does: str) -> tuple[str, ...]:
    """Before a command line: there is a perf in `place` that does this first where it is to record a window."""
    perf = shutil.which("perf")
    script(place / "perf", f'case "$*" in *--control*) {does};; esac\nexec {perf} "$@"')
    return ("env", f"PATH={place}:{os.environ['PATH']}")


def operations_around(run: Run, window: Window) -> tuple[int, int]:
    """By db_bench's report: at least and at most so many operations ended in the window.

    Its lines have whole seconds since its start, to the nearest, and the operations since the line before.
    """
    lines = run.path("db_bench.report.csv").read_text(encoding="ascii").splitlines()[1:]
    begun, done = run.record.report_start_ns, 0
    assert begun is not None
    # By a moment that lies within a second of the one that a line says, so many were done.
    known = [(0, 0)] + [(int(at), done := done + int(more)) for at, more in (line.split(",") for line in lines)]
    first, last = ((moment - begun) / 1e9 for moment in (window.start_ns, window.end_ns))

    def until(moment: float) -> tuple[int, int]:
        """The least and the most that may have been done by then."""
        least = max((count for at, count in known if at + 1 <= moment), default=0)
        return least, min((count for at, count in known if at - 1 >= moment), default=done)

    return max(0, until(last)[0] - until(first)[1]), until(last)[1] - until(first)[0]


def rocksdb_library() -> str:
    """The library that db_bench uses, as the compiler takes it."""
    used = subprocess.run(["ldd", shutil.which("db_bench") or "db_bench"], capture_output=True, text=True, check=True)
    return next(line.split()[2] for line in used.stdout.splitlines() if "librocksdb" in line)


@contextlib.contextmanager
def endpoint(answers: Callable[[], bytes]) -> Iterator[str]:
    """The address of a server that answers every request with what `answers` gives."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = answers()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/metrics"
        server.shutdown()
