"""Capabilities of the host that tests name with `@pytest.mark.needs(...)`, and real processes to test on.

A test whose capability is missing is skipped; with --require-all (CI) it fails, so that nothing goes untested unseen.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from ebpf.backends import try_backend
from ground.errors import HostError
from ground.system.memory_limit import limited_memory
from tests.litter import Session
from tests.places import ROOT
from tests.programs import installed_library

# How long an example takes says nothing here: speed lives in `make bench`.
settings.register_profile("ioflame", deadline=None)
settings.load_profile("ioflame")

# As `make test-by-hand` leaves it.
ROCKSDBJNI = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ioflame" / "rocksdbjni.jar"
DEV_TOOLS = ROOT / "target" / "dev-tools" / "bin"


def _runs(*argv: str) -> bool:
    if shutil.which(argv[0]) is None:
        return False
    return subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL, check=False).returncode == 0


def _makes_memory_groups() -> bool:
    try:
        with limited_memory(1 << 26):
            return True
    except HostError:
        return False


def _makes_cpu_groups() -> bool:
    code = "from ground.system.cpu_limit import limited_cpus\nwith limited_cpus(1.0) as why: exit(bool(why))"
    return _runs(sys.executable, "-c", code)


_VERSION = sys.version_info[:2]
CAPABILITIES: dict[str, Callable[[], bool]] = {
    "chromium": lambda: shutil.which("chromium") is not None,
    "node": lambda: shutil.which("node") is not None,
    "xmllint": lambda: shutil.which("xmllint") is not None,
    "llvm-dwp": lambda: shutil.which("llvm-dwp") is not None,
    "thorin": (DEV_TOOLS / "thorin").exists,
    "cargo": lambda: _runs("cargo", "--version"),
    "clang": lambda: shutil.which("clang++") is not None,
    "postgresql": lambda: any(Path("/usr/lib/postgresql").glob("*/bin/postgres")),
    "myrocks": lambda: bool(shutil.which("sysbench")) and Path("/usr/lib/mysql/plugin/ha_rocksdb.so").exists(),
    "rocksdbjni": lambda: shutil.which("javac") is not None and ROCKSDBJNI.exists(),
    "allocators": lambda: all(map(installed_library, ("libjemalloc.so", "libmimalloc.so", "libtcmalloc_minimal.so"))),
    "gdb": lambda: shutil.which("gdb") is not None,
    "go": lambda: shutil.which("go") is not None,
    "fio": lambda: shutil.which("fio") is not None,
    "db_bench": lambda: shutil.which("db_bench") is not None,
    "ldb": lambda: shutil.which("ldb") is not None,
    "sysbench": lambda: shutil.which("sysbench") is not None,
    "perf": lambda: _runs("perf", "record", "-q", "-N", "-e", "cpu-clock", "-o", "/dev/null", "--", "true"),
    "valgrind": lambda: _runs("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "true"),
    "loop": lambda: _runs("losetup", "--find"),
    "co-re": lambda: try_backend("co-re").works,
    "bpftrace": lambda: try_backend("bpftrace").works,
    "biolatency": lambda: try_backend("bcc").works,
    "runqlat": lambda: _runs("runqlat", "1", "1"),
    "offcputime": lambda: _runs("offcputime", "-p", "1", "1"),
    "bpftool": lambda: _runs("bpftool", "prog", "list"),
    "paranoid_2": lambda: Path("/proc/sys/kernel/perf_event_paranoid").read_text(encoding="ascii").strip() == "2",
    # Of our version, so that our packages are its, too; ours may lie in a home of which others see nothing.
    "usr_python": lambda: _runs("/usr/bin/python3", "-c", f"import sys; exit(sys.version_info[:2] != {_VERSION})"),
    "debuginfod": lambda: shutil.which("debuginfod") is not None and shutil.which("debuginfod-find") is not None,
    "unshare": lambda: _runs("unshare", "--mount", "--pid", "--fork", "--mount-proc", "true"),
    "set_tid": lambda: os.geteuid() == 0 and sys.platform == "linux",
    "maven": lambda: shutil.which("mvn") is not None,
    "spark": lambda: importlib.util.find_spec("pyspark") is not None and _runs("java", "-XX:-UsePerfData", "-version"),
    "zram": lambda: os.access("/sys/class/zram-control/hot_add", os.R_OK),
    "memory_group": _makes_memory_groups,
    "cpu_group": _makes_cpu_groups,
    "x86_64": lambda: os.uname().machine == "x86_64",
    "seccomp": lambda: sys.platform == "linux" and os.uname().machine == "x86_64",
}


@functools.cache
def _has(capability: str) -> bool:
    return CAPABILITIES[capability]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--require-all", action="store_true", help="a missing capability is a failure, not a skip")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two for each CPU: a test waits for what it watches at least as long as it computes."""
    return 2 * len(os.sched_getaffinity(0))


_SESSION = pytest.StashKey[Session]()


# What workers of pytest-xdist left behind, told by the process that started them.
_LEFT = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_LEFT] = []
    starts_workers = bool(getattr(config.option, "numprocesses", None)) and not hasattr(config, "workerinput")
    if not config.getoption("--collect-only") and not starts_workers:
        config.stash[_SESSION] = Session(ROOT / "target" / "pytest")
        # A worker would be given a directory below /tmp, which may be in memory.
        config.option.basetemp = None if hasattr(config, "workerinput") else config.option.basetemp


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker has ended."""
    node.config.stash[_LEFT] += getattr(node, "workeroutput", {}).get("left", [])


def pytest_report_header(config: pytest.Config) -> str:
    session = config.stash.get(_SESSION, None)
    watched = ", ".join(map(str, session.watched)) if session is not None else ""
    return f"left behind: TMPDIR is watched, {watched or 'and as another user than root nothing else'}"


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    own = session.config.stash.get(_SESSION, None)
    left = session.config.stash[_LEFT]
    if own is not None:
        left += own.left()
        own.end(keep=exitstatus != 0)
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left"] = left
    elif left:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_sep("=", "left behind by these tests", red=True)
            reporter.write("\n".join([*left, ""]))


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        for capability in marker.args:
            if not _has(capability):
                words = f"this host lacks: {capability}"
                if item.config.getoption("--require-all"):
                    pytest.fail(words)
                pytest.skip(words)


class Ioflame:
    """Runs the real command line; knows its own processes by a mark in their environment, never by name."""

    def __init__(self, python: str = sys.executable) -> None:
        self._mark = f"IOFLAME_TEST={uuid.uuid4().hex}"
        self._python = python

    def start(self, *arguments: str | Path, prefix: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        name, _, value = self._mark.partition("=")
        return subprocess.Popen(
            [*prefix, self._python, "-m", "ioflame.cli", *map(str, arguments)],
            cwd=ROOT,
            env={**os.environ, name: value},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str | Path, prefix: tuple[str, ...] = (), seconds: int = 300) -> tuple[int, str, str]:
        """Exit code, standard output and standard error of a finished command, which has so many seconds for it."""
        process = self.start(*arguments, prefix=prefix)
        try:
            out, err = process.communicate(timeout=seconds)
        finally:
            process.kill()
        return process.returncode, out, err

    def left_behind(self) -> list[str]:
        """Command lines of processes that still carry our mark."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if self._mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
            except OSError:
                continue
        return found


@pytest.fixture
def ioflame() -> Iterator[Ioflame]:
    command = Ioflame()
    yield command
    assert command.left_behind() == []


@pytest.fixture
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A file system of the size that the test is parametrized with, in a directory whose name a shell would split."""
    disk = tmp_path / "small disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={request.param}", "ioflame-test", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group of our own, with nothing in it."""
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()]
    place = next(Path(words[4]) for words in mounts if words[words.index("-") + 1] in ("cgroup2", "cgroup"))
    group = place / f"ioflame-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group may be made here: {error}")
    yield group
    if group.exists():
        group.rmdir()


@pytest.fixture
def burner() -> Iterator[subprocess.Popen[str]]:
    """A process that only burns CPU, in a function of its own; it says so once it has begun."""
    code = "import sys\ndef burn():\n  n = 0\n  while True: n += 1\nprint('burning', flush=True)\nburn()"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "burning\n"
        yield process
    finally:
        process.kill()
        process.communicate()
