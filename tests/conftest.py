"""Capabilities of the host that tests name with `@pytest.mark.needs(...)`, and real processes to test on.

A test whose capability is missing is skipped; with --require-all (CI) it fails, so that nothing goes untested unseen.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from ebpf.backends import try_backend
from ground.errors import HostError
from ground.system.limits import limited_memory
from ground.system.process import Children
from tests.figures import Report, reporter_of, table_of
from tests.litter import Session, marked_processes, session_parent
from tests.places import ROOT
from tests.programs import installed_library
from tests.recorded_run import Measured, record_run

# How long an example takes says nothing here: speed lives in `make bench`. The gate tries the same examples each time.
settings.register_profile("gate", deadline=None, derandomize=True)
settings.register_profile("random", deadline=None, max_examples=1000, print_blob=True)

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
    code = "from ground.system.limits import limited_cpus\nwith limited_cpus(1.0) as why: exit(bool(why))"
    return _runs(sys.executable, "-c", code)


_VERSION = sys.version_info[:2]
CAPABILITIES: dict[str, Callable[[], bool]] = {
    "chromium": lambda: shutil.which("chromium") is not None,
    "node": lambda: shutil.which("node") is not None,
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
    parser.addoption("--times", type=int, default=1, help="how often a test that reports figures is run: its interval")
    parser.addoption("--random-examples", action="store_true", help="the property tests alone, from a random seed")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two for each CPU where tests wait for what they watch, otherwise one."""
    return (2 if config.option.markexpr == "long" else 1) * len(os.sched_getaffinity(0))


_SESSION = pytest.StashKey[Session]()
# What workers of pytest-xdist left behind, told by the process that started them.
_LEFT = pytest.StashKey[list[str]]()
# What they share: a directory, which that process makes and removes.
_SHARED = pytest.StashKey[Path]()
# What makes the recorded run beside the tests. What failed is made again by the test that reads it, which tells why.
_RECORDER = pytest.StashKey["subprocess.Popen[bytes]"]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_LEFT] = []
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if config.getoption("--random-examples") and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = secrets.randbelow(1 << 32)
    settings.load_profile("random" if config.getoption("--random-examples") else "gate")
    if config.getoption("--collect-only"):
        return
    if worker is None:
        config.stash[_SHARED] = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-shared-", dir=session_parent()))
        if getattr(config.option, "numprocesses", None):
            return
    else:
        config.stash[_SHARED] = Path(worker["shared"])
        # It would be given a directory below /tmp, which may be in memory.
        config.option.basetemp = None
    config.stash[_SESSION] = Session(session_parent())


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["shared"] = str(node.config.stash[_SHARED])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--random-examples"):
        chosen = [one for one in items if getattr(getattr(one, "obj", None), "is_hypothesis_test", False)]
        config.hook.pytest_deselected(items=[one for one in items if one not in chosen])
        items[:] = chosen
    for item in items:
        reads_run = _reads_run(item)
        if reads_run + sum(item.get_closest_marker(tier) is not None for tier in ("long", "by_hand")) > 1:
            raise pytest.UsageError(f"{item.nodeid} is of one tier; the recorded run is read in `make test` alone")
        if reads_run:
            item.add_marker(pytest.mark.needs("perf", "db_bench", "co-re"))
    # While it is made, the others run.
    items.sort(key=_reads_run)


def _reads_run(item: pytest.Item) -> bool:
    return "finished" in getattr(item, "fixturenames", ())


def pytest_collection_finish(session: pytest.Session) -> None:
    config = session.config
    first = getattr(config, "workerinput", {"workerid": "gw0"})["workerid"] == "gw0"
    if first and _SHARED in config.stash and any(map(_reads_run, session.items)):
        words = [sys.executable, "-m", "tests.recorded_run", str(config.stash[_SHARED])]
        config.stash[_RECORDER] = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture(scope="session")
def shared(request: pytest.FixtureRequest) -> Path:
    """A directory that all workers see, for what is made once (`made_once`) and never written again."""
    return request.config.stash[_SHARED]


@pytest.fixture(scope="session")
def finished(shared: Path) -> Measured:
    """The one recorded run, which is begun with the first test: `make profile`, with everything that watches."""
    return record_run(shared)


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Report:
    """`figure(name, value, low, high, expected="...")`: a row of the table that `make test-by-hand` ends with."""
    return reporter_of(request.node)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    times = metafunc.config.getoption("--times")
    if times > 1 and "figure" in metafunc.fixturenames:
        metafunc.fixturenames.append("time_of_measuring")
        metafunc.parametrize("time_of_measuring", range(times), ids=lambda number: f"time{number}")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [one for group in terminalreporter.stats.values() for one in group if hasattr(one, "user_properties")]
    lines = table_of([one for one in reports if getattr(one, "when", "") == "call"])
    if lines:
        terminalreporter.write_sep("=", "figures, with 95 % intervals")
        terminalreporter.write("\n".join([*lines, ""]))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker has ended."""
    node.config.stash[_LEFT] += getattr(node, "workeroutput", {}).get("left", [])


def pytest_report_header(config: pytest.Config) -> list[str]:
    session = config.stash.get(_SESSION, None)
    watched = ", ".join(map(str, session.watched)) if session is not None else ""
    lines = [f"left behind: TMPDIR is watched, {watched or 'and as another user than root nothing else'}"]
    if config.getoption("--random-examples"):
        again = f"--random-examples --hypothesis-seed={config.option.hypothesis_seed}"
        lines.append(f"random examples: the same again by {again}")
    return lines


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    session = item.config.stash.get(_SESSION, None)
    if session is not None:
        session.begins(item.nodeid)
    return (yield)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    own = session.config.stash.get(_SESSION, None)
    left = session.config.stash[_LEFT]
    if _RECORDER in session.config.stash:
        session.config.stash[_RECORDER].wait()
    if own is not None:
        left += own.left()
    output: dict[str, list[str]] | None = getattr(session.config, "workeroutput", None)
    if output is None and _SHARED in session.config.stash and exitstatus == 0:
        shutil.rmtree(session.config.stash[_SHARED], ignore_errors=True)
    if own is not None:
        own.end(keep=exitstatus != 0)
    if output is not None:
        output["left"] = left
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

    def start(
        self, *arguments: str | Path, prefix: tuple[str, ...] = (), terminal: int | None = None
    ) -> subprocess.Popen[str]:
        """terminal: its side of one, on which all three streams are then"""
        name, _, value = self._mark.partition("=")
        return subprocess.Popen(
            [*prefix, self._python, "-m", "ioflame.cli", *map(str, arguments)],
            cwd=ROOT,
            env={**os.environ, name: value},
            stdin=subprocess.DEVNULL if terminal is None else terminal,
            stdout=subprocess.PIPE if terminal is None else terminal,
            stderr=subprocess.PIPE if terminal is None else terminal,
            text=True,
        )

    def run(self, *arguments: str | Path, prefix: tuple[str, ...] = (), seconds: int = 1800) -> tuple[int, str, str]:
        """Exit code, standard output and standard error of a finished command, which has so many seconds for it."""
        process = self.start(*arguments, prefix=prefix)
        try:
            out, err = process.communicate(timeout=seconds)
        finally:
            process.kill()
        return process.returncode, out, err

    def left_behind(self) -> list[str]:
        """Command lines of processes that still carry our mark."""
        return [words for _, words in marked_processes(self._mark.encode())]


@pytest.fixture
def ioflame() -> Iterator[Ioflame]:
    command = Ioflame()
    yield command
    assert command.left_behind() == []


@pytest.fixture
def children() -> Iterator[Children]:
    """Of ours, whose processes end with the test."""
    with Children() as started:
        yield started


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
    """A control group of our own, with nothing in it; the test may make others below it."""
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()]
    # Not a group of it that a container's tools have bound elsewhere.
    whole = (words for words in mounts if words[3] == "/" and words[words.index("-") + 1] in ("cgroup2", "cgroup"))
    places = [Path(words[4]) for words in whole]
    # One that counts CPU. The root of version 2 has no such counter itself, and all below it have.
    counted = [one for one in places if (one / "cpuacct.usage").exists() or (one / "cgroup.controllers").exists()]
    if not counted:
        pytest.skip("no control group with a counter of CPU")
    group = counted[0] / f"ioflame-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group may be made here: {error}")
    yield group
    for directory, _, _ in os.walk(group, topdown=False):
        Path(directory).rmdir()


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
