"""stackfold on perf.data itself: the same stacks as from the text of perf script, the same totals as perf report."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ground.system.held_process import HeldProcess
from tests.folding.recordings import (
    CHAINS,
    SOURCE,
    by_text,
    checked,
    direct,
    record,
    record_while_it_runs,
    recording,
    run,
    stacks,
    stats,
    uses_cpu,
)
from tests.folding.recordings import share_of_differences as difference
from tests.programs import FRAMES, compiled
from tests.until import until

pytestmark = [pytest.mark.long, pytest.mark.needs("perf")]


@pytest.mark.parametrize("options", [["-F", "2000"], ["-c", "500000"], ["-F", "2000", "-z"]], ids=["F", "c", "z"])
def test_frame_pointer_stacks_are_those_of_perf_script(build: Any, tmp_path: Path, options: list[str]) -> None:
    data = record(tmp_path / "perf.data", ["-e", "cpu-clock", "-g", *options], build("fp"), "400")
    ours = direct(data)
    assert difference(ours, by_text(data)) < 0.005
    assert "cpu-clock: total equal" in checked(data)
    names = {frame for stack in ours for frame in stack.split(b";")}
    pointer = [b"engine::Pointer<int, 8ul>::operator" + sign for sign in (b"->", b"<<", b"()")]
    assert names >= {b"(anonymous namespace)::hidden", b'engine::operator"" _turns', b"engine::deep", b"my_pool:12_x"}
    assert names >= set(pointer)
    assert any(b"main::{lambda(int)#1}" in name for name in names), names


def test_names_are_spelled_as_in_the_text_of_perf_script(tmp_path: Path) -> None:
    """Packs of nothing, a lambda's call operator, pointers to members."""
    program = compiled(
        """#include <tuple>
        struct Foo { void step() { for (volatile int i = 0; i < 20000; ) i = i + 1; } };
        template <class A, class... B> __attribute__((noinline)) void pack(A a, B...) { a(); asm volatile(""); }
        template <class T> struct Runs { T of; void operator()() { (std::get<1>(of)->*std::get<0>(of))(); asm(""); } };
        int main() {
            Foo foo;
            auto two = [&](int n) { pack([&] { foo.step(); asm volatile(""); }); return n; };
            for (int n = 0; n < 3000; n++) { two(n); Runs<std::tuple<void (Foo::*)(), Foo*>>{{&Foo::step, &foo}}(); }
        }""",
        tmp_path / "names", "-O0", "-std=c++20", compiler="g++",
    )  # fmt: skip
    data = record(tmp_path / "perf.data", CHAINS, program)
    ours = direct(data, of=b"names;")
    text = Counter({stack: weight for stack, weight in by_text(data).items() if stack.startswith(b"names;")})
    assert difference(ours, text) < 0.005
    names = {frame for stack in ours for frame in stack.split(b";")}
    inner = b"main::{lambda(int)#1}::operator()(int) const::{lambda()#1}"
    assert names >= {b"main::{lambda(int)#1}::operator()", inner + b"::operator()", b"pack<" + inner + b">"}
    assert b"Runs<std::tuple<void (Foo::*)(), Foo*> >::operator()" in names


def test_chains_at_the_kernels_limit_are_counted(build: Any, tmp_path: Path) -> None:
    data = record(tmp_path / "perf.data", CHAINS, build("fp"), "300")
    found = stats(data, tmp_path)
    assert found["truncated_chains"] > 0
    # A chain whose last frame is just at the limit is as long, and whole.
    whole = sum(w for stack, w in direct(data).items() if stack.count(b";") == 127 and b";_start;" in stack)
    each = found["weight"] / found["samples"]
    assert found["incomplete_samples"] + round(whole / each) >= found["truncated_chains"]


# A level takes 16 bytes without frame pointers, and perf copies 65,528 at most.
@pytest.mark.parametrize(
    ("program", "levels", "copied", "hz"),
    [("fp", 300, 32768, 499), ("nofp", 300, 32768, 499), ("debug", 300, 32768, 499), ("nofp", 2000, 65528, 199)],
)
def test_copied_stacks_are_unwound_as_perf_does(
    build: Any, tmp_path: Path, program: str, levels: int, copied: int, hz: int
) -> None:
    options = ["-e", "cpu-clock", "--call-graph", f"dwarf,{copied}", "-F", str(hz)]
    data = record(tmp_path / "perf.data", options, build(program), "500", "deep", str(levels))
    ours = direct(data)
    assert difference(ours, by_text(data)) < 0.02
    found = stats(data, tmp_path, "--no-inlines")
    assert found["incomplete_samples"] <= 0.02 * found["samples"]
    # Nothing is cut.
    deepest = max(ours, key=lambda stack: stack.count(b"engine::deep"))
    assert deepest.count(b"engine::deep") == levels + 1
    assert deepest.startswith(b"my_pool:12_x;_start;")
    checked(data)


def test_inlined_functions_are_frames_and_can_be_marked_or_left_out(build: Any, tmp_path: Path) -> None:
    data = record(tmp_path / "perf.data", CHAINS, build("debug"), "300")
    marked = stacks(run("-q", "--inlines", data).stdout)
    hidden = [stack for stack in marked if b"(anonymous namespace)::hidden" in stack]
    assert any(stack.endswith(b"(anonymous namespace)::hidden;turn_[i]") for stack in hidden), hidden
    plain = stacks(run("-q", data).stdout)
    assert any(stack.endswith(b"(anonymous namespace)::hidden;turn") for stack in plain)
    without = stacks(run("-q", "--no-inlines", data).stdout)
    assert not any(b";turn" in stack for stack in without)
    assert sum(marked.values()) == sum(plain.values()) == sum(without.values())


def test_several_events_are_kept_apart(build: Any, tmp_path: Path) -> None:
    data = record(tmp_path / "perf.data", ["-e", "cpu-clock,page-faults", "-g"], build("fp"), "300")
    # Not what the loader does before the program has its name: one sample in ten page faults there may lie in a stub of
    # libc's that belongs to no function, which perf calls "@plt".
    for event in ["cpu-clock", "page-faults"]:
        wanted = ("--event", event, "--comm", "my pool;12 x")
        assert difference(direct(data, *wanted), by_text(data, *wanted)) < 0.01
    said = checked(data)
    assert said.count("total equal") == 2


def test_a_directory_with_a_file_for_each_thread_of_perf_names_the_command(build: Any, tmp_path: Path) -> None:
    data = record(tmp_path / "perf.data", ["--threads", "-e", "cpu-clock", "-F", "999", "-g"], build("fp"), "300")
    assert data.is_dir()
    done = run("-q", data)
    assert done.returncode == 2
    (made,) = re.findall(rb"make it of them: (.*); stackfold (.*)\n", done.stderr)
    # It warns that it does not copy the kernel's memory.
    subprocess.run(made[0].decode().split(), capture_output=True, check=False)
    (total,) = re.findall(
        rb"Event count .*: (\d+)",
        subprocess.run(["perf", "report", "--stdio", "-i", data], capture_output=True, check=True).stdout,
    )
    assert sum(stacks(run("-q", made[1].decode()).stdout).values()) == int(total)


def test_a_pipe_gives_the_stacks_of_a_file(build: Any, tmp_path: Path) -> None:
    argv = ["perf", "record", "-q", "-e", "cpu-clock", "-g", "-F", "999", "-o", "-", "--", str(build("fp")), "200"]
    recording = subprocess.run(argv, check=True, capture_output=True, stdin=subprocess.DEVNULL).stdout
    (tmp_path / "pipe.data").write_bytes(recording)
    piped = run("-q", "--kernel", "--no-inlines", stdin=recording)
    assert stacks(piped.stdout) == direct(tmp_path / "pipe.data")
    assert difference(stacks(piped.stdout), by_text(tmp_path / "pipe.data")) < 0.01


def test_a_file_with_another_build_id_is_not_used(tmp_path: Path) -> None:
    program, other = (
        compiled(SOURCE, tmp_path / name, "-std=c++17", *FRAMES, "-Wl,--build-id=uuid", "-ldl")
        for name in ("busy", "other")
    )
    data = record(tmp_path / "perf.data", ["-N", *CHAINS], program, "300")
    named = direct(data)
    kept = program.rename(tmp_path / "kept")
    other.rename(program)
    assert any("busy: not used, its build id is" in note for note in stats(data, tmp_path)["notes"])
    assert not any(b"engine::deep" in stack for stack in direct(data))
    kept.replace(program)
    assert direct(data) == named


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the program makes x86-64 code")
def test_run_time_code_has_the_names_its_process_wrote_down(map_of_jit: tuple[Path, Path]) -> None:
    data, _ = map_of_jit
    ours = direct(data, "--jit")
    assert any(stack.endswith(b";main;a->b_[j]") for stack in ours), list(ours)[-3:]
    assert difference(ours, by_text(data, "--jit")) < 0.01


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the program makes x86-64 code")
@pytest.mark.skipif(os.getuid() != 0, reason="a pid namespace and a /tmp of its own need root")
def test_run_time_code_of_a_container_has_the_names_that_lie_in_it(build: Any, tmp_path: Path) -> None:
    inside = 'exec 9< "$0"; mount -t tmpfs none /tmp; install -m 755 /proc/self/fd/9 /tmp/busy; echo; '
    inside += "exec /tmp/busy 600000 jit"
    argv = ["unshare", "--fork", "--pid", "--mount", "--kill-child", "sh", "-c", inside, str(build("fp"))]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as container:
        try:
            assert container.stdout is not None and container.stdout.readline()
            pid = int(Path(f"/proc/{container.pid}/task/{container.pid}/children").read_text())
            held = HeldProcess(pid)
            options = [*CHAINS, "-p", str(pid)]
            told = record_while_it_runs(tmp_path / "told.data", ["--namespaces", *options], pid)
            plain = record_while_it_runs(tmp_path / "plain.data", options, pid)
            assert any(stack.endswith(b";a->b_[j]") for stack in direct(told, "--jit"))
            # Whose number that is by now is not known without the namespace, which perf 6.12 records unasked.
            shown = ["perf", "script", "--show-namespace-events", "-i", str(plain)]
            unasked = b"RECORD_NAMESPACES" in subprocess.run(shown, capture_output=True, check=True).stdout
            assert any(b"a->b" in stack for stack in direct(plain, "--jit")) == unasked
        finally:
            container.kill()
    # It is killed with its parent, and ends when it next has a CPU.
    until(lambda: not held.alive)
    # Its number may be another's by now.
    assert not any(b"a->b" in stack for stack in direct(told, "--jit"))


@pytest.mark.parametrize("chains", ["--kernel-callchains", "--user-callchains"])
def test_chains_of_one_side_keep_the_leaves_of_the_other(build: Any, tmp_path: Path, chains: str) -> None:
    # Its samples are of both sides: it touches new memory all the time.
    data = record(tmp_path / "perf.data", [*CHAINS, chains], build("fp"), "300")
    ours = direct(data)
    assert "cpu-clock: total equal" in checked(data)
    leaves: Counter[bytes] = Counter()
    for stack, weight in ours.items():
        leaves[stack.rpartition(b";")[2]] += weight
    total = sum(ours.values())
    assert not leaves[b"my_pool:12_x"]
    assert leaves[b"engine::deep"] and any(leaf.endswith(b"_[k]") for leaf in leaves)
    # perf report's own weights, which are by the places executed.
    reported = json.loads(run("check", "--format", "json", data).stdout)["events"][0]
    apart = sum(abs(row["folded"] - row["reported"]) for row in reported["differences"])
    assert apart < 0.01 * total


def test_a_command_with_a_line_feed(build: Any, tmp_path: Path) -> None:
    data = record(tmp_path / "perf.data", ["-e", "cpu-clock", "-g", "-F", "999"], build("fp"), "200", "newline")
    named = [stack for stack in direct(data) if stack.startswith(b"two_lines;")]
    assert named
    assert "cpu-clock: total equal" in checked(data)


# Of some 600 faults each second one is a sample: one that perf names otherwise is 0.3 % of the weight.
@pytest.mark.parametrize("options", [["-F", "99"], ["-c", "2"]], ids=["F99", "c2"])
def test_page_faults_whose_periods_vary_or_not(build: Any, tmp_path: Path, options: list[str]) -> None:
    data = record(tmp_path / "perf.data", ["-e", "page-faults", "-g", *options], build("fp"), "400")
    ours = direct(data)
    # Half of a small program's page faults are the loader's, whose stubs of functions chosen at run time perf calls
    # `@plt`, without a name.
    theirs = by_text(data)
    # With -F there may be no more than four samples.
    assert difference(ours, theirs) < 0.02 or (options[0] == "-F" and len(ours - theirs) == 1 < len(ours) < 20)
    assert "page-faults: total equal" in checked(data)
    found = stats(data, tmp_path)
    if options[0] == "-c":
        assert (found["period_min"], found["period_max"]) == (2, 2)
    else:
        assert found["period_min"] < found["period_max"]
    assert found["weight"] == sum(ours.values())


def test_lost_samples_are_told_and_those_that_came_are_all_counted(build: Any, tmp_path: Path) -> None:
    # Sixteen stacks fill the buffer, and perf does not empty it while the program runs for a hundred samples.
    options = ["-e", "cpu-clock", "-F", "5000", "-m", "64", "--call-graph", "dwarf,16384"]
    data = tmp_path / "perf.data"
    with subprocess.Popen([build("nofp"), "600000"]) as program:
        try:
            with recording(data, [*options, "-p", str(program.pid)]) as perf:
                perf.send_signal(signal.SIGSTOP)
                uses_cpu(0.02, program.pid, watching=perf)
                perf.send_signal(signal.SIGCONT)
                uses_cpu(0.2, program.pid, watching=perf)
        finally:
            program.kill()
    found = stats(data, tmp_path)
    assert found["samples"] > 0 and found["lost_samples"] > 0
    assert b"perf lost" in run(data).stderr
    argv = ["perf", "script", "--no-inline", "--show-lost-events", "-i", str(data)]
    text = subprocess.run(argv, check=True, capture_output=True, stdin=subprocess.DEVNULL).stdout
    by_lines = run("-q", "--stats", "/dev/stdout", "-o", "/dev/null", stdin=text).stdout
    # The kernel says what it lost when there is room again: what was lost at the end is in perf's own count alone.
    lines = sum(int(count) for count in re.findall(rb"PERF_RECORD_LOST lost (\d+)", text))
    assert 0 < lines <= found["lost_samples"]
    assert f'"lost_samples": {lines}'.encode() in by_lines
    assert f'"weight": {found["weight"]}'.encode() in by_lines
    assert "cpu-clock: total equal" in checked(data)
