"""What valgrind's callgrind counted, folded: the same totals as its own reader prints, with whole stacks."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.folding.recordings import run, stacks
from tests.programs import compiled

pytestmark = [pytest.mark.long, pytest.mark.needs("valgrind")]

# Names that hold brackets and operators, recursion, and a thread beside the first.
SOURCE = r"""
#include <functional>
#include <string>
#include <thread>
namespace eng {
struct Key { long v; bool operator<(const Key& other) const; };
__attribute__((noinline)) long leaf(long n) { volatile long s = 0; for (long i = 0; i < n; i++) s = s + i; return s; }
__attribute__((noinline)) long deeper(long n) { return n ? deeper(n - 1) + leaf(n) : leaf(9); }
template <class T> __attribute__((noinline)) long sized(const T& t) { return leaf(long(t.size())) + 1; }
__attribute__((noinline)) bool Key::operator<(const Key& other) const { return leaf(v) < leaf(other.v); }
}
int main() {
  std::function<long(long)> f = [](long n) { return eng::leaf(n) + 1; };
  long s = eng::deeper(20) + eng::sized(std::string(100, 'x')) + f(300) + (eng::Key{50} < eng::Key{70});
  std::thread([&] { s += eng::leaf(1000); }).join();
  return s == 0;
}
"""
COUNTED = ("--branch-sim=yes", "--collect-bus=yes", "--combine-dumps=yes", "--dump-before=eng::deeper(long)")


def counted(program: Path, out: Path, *options: str) -> Path:
    argv = ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}", *COUNTED, *options, str(program)]
    subprocess.run(argv, check=True, capture_output=True)
    return out


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("callgrind")
    return compiled(SOURCE, place / "my_bench", "-O1", "-g", "-fno-omit-frame-pointer", "-pthread", compiler="g++")


def test_whole_stacks_have_the_totals_that_callgrind_wrote(program: Path, tmp_path: Path) -> None:
    path = counted(program, tmp_path / "out", "--separate-callers=80", "--separate-threads=yes", "--collect-jumps=yes")
    text = path.read_text()
    assert "\njcnd=" in text
    assert len(re.findall(r"^part: ", text, re.MULTILINE)) > 2
    names = re.findall(r"^events: (.*)", text, re.MULTILINE)[0].split()
    totals = [line.split() for line in re.findall(r"^totals: (.*)", text, re.MULTILINE)]
    for column, name in enumerate(names):
        sums = sum(int(line[column]) for line in totals if column < len(line))
        assert sum(stacks(run("-q", "--event", name, path).stdout).values()) == sums, name
    whole = stacks(run("-q", path).stdout)
    below_main = [stack.split(b";main;")[1] for stack in whole if b";main;" in stack]
    for wanted in (b"eng::deeper;eng::leaf", b"eng::Key::operator<;eng::leaf"):
        assert wanted in below_main
    assert any(re.fullmatch(rb"eng::sized<std::.*>;eng::leaf", stack) for stack in below_main)
    threads = {stack.split(b";")[0].rpartition(b"/")[2] for stack in stacks(run("-q", "--tid", path).stdout)}
    assert threads == {b"1", b"2"}


def test_a_function_costs_what_callgrinds_own_reader_says(program: Path, tmp_path: Path) -> None:
    path = counted(program, tmp_path / "out")
    argv = ["callgrind_annotate", "--threshold=100", "--show=Ir", "--auto=no", str(path)]
    printed = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    ours = stacks(run("-q", "--tidy=none", path).stdout)
    for function in ("eng::leaf(long)", "eng::deeper(long)'2", "eng::Key::operator<(eng::Key const&) const"):
        theirs = re.findall(rf"^\s*([\d,]+)[^\n]*:{re.escape(function)} \[", printed, re.MULTILINE)
        assert theirs, printed
        name = function.removesuffix("'2").encode()
        own = sum(weight for stack, weight in ours.items() if stack.rpartition(b";")[2] == name)
        every = re.findall(rf"^\s*([\d,]+)[^\n]*:{re.escape(name.decode())}(?:'2)? \[", printed, re.MULTILINE)
        assert own == sum(int(figure.replace(",", "")) for figure in every), function


def test_categories_add_up_to_its_instructions(program: Path, tmp_path: Path) -> None:
    path = counted(program, tmp_path / "out", "--separate-callers=80")
    found = json.loads(run("categories", "--rules", "rocksdb", "--format", "json", path).stdout)
    assert found["unit"] == "instructions"
    total = sum(stacks(run("-q", path).stdout).values())
    assert found["total_weight"] == total == sum(row["weight"] for row in found["rows"])
