"""Returns are seen by exits of functions: what throws, jumps, switches stacks or moves them lives, and is counted."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ebpf.ladder import LadderRequest
from ebpf.tail import TailRequest
from ebpf.writes import WritesRequest, writes_observer
from ground.errors import HostError
from ground.results.write_ladder import read_write_ladder
from tests.ebpf.windows import OrderedProgram, ladder_of, observed, records_of
from tests.programs import built, compiled

pytestmark = [pytest.mark.long, pytest.mark.needs("co-re")]

_SOURCE = Path(__file__).with_name("leaver.cc")
_CALLS, _WINDOWS = 1000, 2
_QUERY = {"catches": "store::get_all", "locked": "main.get", "free": "main.get"}
_WRITES = """
engine = "leaver"
query = []
reader = []
write = [{name = "write", prefix = "store::get("}, {name = "preprocess", prefix = "store::prepare("}]
"""


@pytest.fixture(scope="module")
def in_cpp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, _SOURCE, "-O2")


@pytest.fixture(scope="module")
def in_go(tmp_path_factory: pytest.TempPathFactory) -> Path:
    binary = tmp_path_factory.mktemp("leaver") / "leaver"
    subprocess.run(["go", "build", "-o", binary, _SOURCE.with_suffix(".go")], check=True)
    return binary


class Leaver(OrderedProgram):
    """The program; `returned`: of the calls that were ordered last."""

    returned = 0

    def call(self) -> None:
        self.returned = self.query(str(_CALLS))


@pytest.fixture
def leaver(request: pytest.FixtureRequest) -> Iterator[Leaver]:
    """A program of the mode that is asked for."""
    program = request.getfixturevalue("in_go" if request.param in ("locked", "free") else "in_cpp")
    one = Leaver(program, request.param)
    yield one
    one.kill()


def in_modes(*names: str) -> pytest.MarkDecorator:
    go = pytest.mark.needs("go")
    modes = [pytest.param(name, name, marks=[go] if name in ("locked", "free") else []) for name in names]
    return pytest.mark.parametrize(("leaver", "mode"), modes, indirect=["leaver"], ids=names)


_ALL = in_modes("throws", "catches", "jumps", "switches", "locked", "free")


@_ALL
def test_a_ladder_counts_the_calls_of_a_program_that_lives(leaver: Leaver, mode: str, tmp_path: Path) -> None:
    wanted = LadderRequest(leaver.pid, 1, "query", query_symbol=_QUERY.get(mode, "store::get"))
    for _ in range(_WINDOWS):
        ladder = ladder_of(wanted, tmp_path, leaver.call, leaver)
        assert ladder.uprobes == "exits" and not ladder.process_ended
        nested, left = ladder.losses["nested"], ladder.losses["abandoned"]
        assert ladder.queries + nested == _CALLS
        if mode == "switches":
            assert ladder.finished + left <= ladder.queries
        elif mode == "free":
            assert ladder.finished > 0 and ladder.finished + left <= ladder.queries
        else:
            assert (ladder.finished, nested) == (leaver.returned, 0)
            # Of the last one nothing began on its thread that could say so.
            assert _CALLS - ladder.finished - left in (0, 1)
    assert leaver.query("4") == 4


@_ALL
def test_records_are_of_calls_that_returned(leaver: Leaver, mode: str, tmp_path: Path) -> None:
    symbol = _QUERY.get(mode, "store::get")
    wanted = TailRequest(leaver.pid, keep="all", linger=0, expected=1, query_symbol=symbol)
    for _ in range(_WINDOWS):
        told, records = records_of(wanted, tmp_path, leaver.call, leaver)
        assert told.uprobes == "exits" and told.queries + told.losses["nested"] == _CALLS
        # One of the pilot's may have been left in the window.
        assert 0 < len(records) <= told.queries - told.losses["abandoned"] + told.threads
    assert leaver.query("4") == 4


@in_modes("throws", "jumps", "switches")
def test_writes_that_returned_are_counted(leaver: Leaver, mode: str, tmp_path: Path) -> None:
    out, rules = tmp_path / "writes.json", tmp_path / "symbols.toml"
    rules.write_text(_WRITES)
    wanted = WritesRequest(leaver.pid, "full", force=True, symbols=rules)
    for _ in range(_WINDOWS):
        observed(lambda children: writes_observer(wanted, children, out), leaver.call, leaver)
        ladder = read_write_ladder(out)
        assert ladder.writes + ladder.losses["nested"] == _CALLS and ladder.uprobes == "exits"
        if mode != "switches":
            assert ladder.finished == leaver.returned
    assert leaver.query("4") == 4


def test_a_function_whose_exits_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """A trampoline is for those who insist, and say that nothing leaves it otherwise."""
    program = compiled(
        """
        #include <poll.h>
        #include <stdio.h>
        #include <stdlib.h>
        typedef void (*Where)(void);
        void here(void) {}
        Where volatile where = here;
        __attribute__((noinline)) void get(void) { where(); }
        int main(void) {
            char line[64];
            puts("ready");
            fflush(stdout);
            while (fgets(line, sizeof line, stdin)) {
                int n = atoi(line);
                struct pollfd input = {0, POLLIN, 0};
                for (; !n && !poll(&input, 1, 0);) get();
                if (!n && !fgets(line, sizeof line, stdin)) return 0;
                for (int i = 0; i < n; i++) get();
                printf("%d\\n", n);
                fflush(stdout);
            }
        }
        """,
        tmp_path / "pointer",
        "-O2",
    )
    one = OrderedProgram(program)
    try:
        wanted = LadderRequest(one.pid, 1, "query", query_symbol="get")
        told = r"(?s)get\(\) .* jump through a pointer.*an exception leaves it.*--return-trampolines"
        with pytest.raises(HostError, match=told):
            ladder_of(wanted, tmp_path, lambda: None, one)
    finally:
        one.kill()
