"""stackfold on perf.data itself: the same stacks as from the text of perf script, the same totals as perf report."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.folding.recordings import (
    by_text,
    checked,
    direct,
    library,
    record,
    recording,
    run,
    share_of_differences,
    stacks,
    stats,
)
from tests.programs import FRAMES, compiled

pytestmark = pytest.mark.needs("perf")


@pytest.mark.parametrize("options", [["-F", "2000"], ["-c", "500000"], ["-F", "2000", "-z"]], ids=["F", "c", "z"])
def test_frame_pointer_stacks_are_those_of_perf_script(build: Any, tmp_path: Path, options: list[str]) -> None:
    data = record(tmp_path / "perf.data", ["-e", "cpu-clock", "-g", *options], build("fp"), "400")
    ours = direct(data)
    assert share_of_differences(ours, by_text(data)) < 0.005
    assert "cpu-clock: total equal" in checked(data)
    names = {frame for stack in ours for frame in stack.split(b";")}
    for name in [
        b"(anonymous namespace)::hidden",
        b"engine::Pointer<int, 8ul>::operator->",
        b"engine::Pointer<int, 8ul>::operator<<",
        b"engine::Pointer<int, 8ul>::operator()",
        b'engine::operator"" _turns',
        b"engine::deep",
        b"my_pool:12_x",
    ]:
        assert name in names, name
    assert any(b"main::{lambda(int)#1}" in name for name in names), names


def test_chains_at_the_kernels_limit_are_counted(build: Any, tmp_path: Path) -> None:
    data = record(tmp_path / "perf.data", ["-e", "cpu-clock", "-g", "-F", "2000"], build("fp"), "300")
    found = stats(data, tmp_path)
    assert found["truncated_chains"] > 0
    # A chain whose last frame is just at the limit is as long, and whole.
    whole = sum(w for stack, w in direct(data).items() if stack.count(b";") == 127 and b";_start;" in stack)
    each = found["weight"] / found["samples"]
    assert found["incomplete_samples"] + round(whole / each) >= found["truncated_chains"]


@pytest.mark.parametrize("program", ["fp", "nofp", "debug"])
def test_copied_stacks_are_unwound_as_perf_does(build: Any, tmp_path: Path, program: str) -> None:
    options = ["-e", "cpu-clock", "--call-graph", "dwarf,32768", "-F", "499"]
    data = record(tmp_path / "perf.data", options, build(program), "500")
    assert share_of_differences(direct(data), by_text(data)) < 0.02
    found = stats(data, tmp_path, "--no-inlines")
    assert found["incomplete_samples"] <= 0.02 * found["samples"]
    # 300 calls deep, and nothing is cut.
    deepest = max(direct(data), key=lambda stack: stack.count(b"engine::deep"))
    assert deepest.count(b"engine::deep") == 301
    assert deepest.startswith(b"my_pool:12_x;_start;")
    checked(data)


def test_inlined_functions_are_frames_and_can_be_marked_or_left_out(build: Any, tmp_path: Path) -> None:
    data = record(tmp_path / "perf.data", ["-e", "cpu-clock", "-g", "-F", "2000"], build("debug"), "300")
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
    refused = run(data)
    assert refused.returncode == 2
    assert b"cpu-clock:" in refused.stderr and b"page-faults:" in refused.stderr
    # Not what the loader does before the program has its name: one sample in ten page faults there may lie in a stub of
    # libc's that belongs to no function, which perf calls "@plt".
    for event in ["cpu-clock", "page-faults"]:
        wanted = ("--event", event, "--comm", "my pool;12 x")
        assert share_of_differences(direct(data, *wanted), by_text(data, *wanted)) < 0.01
    said = checked(data)
    assert said.count("total equal") == 2


def test_a_system_wide_recording_by_process(build: Any, tmp_path: Path) -> None:
    data = tmp_path / "perf.data"
    with recording(data, ["-e", "cpu-clock", "-F", "999", "-g", "-a"], build("fp"), "400") as (_, pid):
        pass
    # Of others, as of tests beside it, files may change between two looks at them.
    of_it = f"my_pool:12_x-{pid}/".encode()
    ours = direct(data, "--tid", "--dso", of=of_it)
    theirs = by_text(data, "--tid", "--dso", script=("-F", "comm,pid,tid,time,period,event,ip,sym,dso"))
    assert sum(ours.values()) == sum(theirs.values())
    own: list[Counter[bytes]] = []
    for side in (ours, theirs):
        kept: Counter[bytes] = Counter()
        for stack, weight in side.items():
            # perf 6.12 no longer knows the name of a thread that has told its end, and is still in its exit.
            named = stack.replace(f":{pid}-{pid}/".encode(), of_it, 1)
            if named.startswith(of_it):
                # Of libc the object alone: perf takes one file for a path, and where a container's process has another
                # libc at the same one, it named functions of that (__gconv_read_conf for __libc_start_call_main).
                kept[re.sub(rb"(libc\.so\.6)`[^;]*", rb"\1", named)] += weight
        own.append(kept)
    assert own[0] and share_of_differences(*own) < 0.01
    assert "total equal" in checked(data, "--only-pid", str(pid))
    assert all(
        stack.startswith(b"my_pool:12_x;") for stack in direct(data, "--only-pid", str(pid), "--comm", "my pool;12 x")
    )


def test_a_directory_with_a_file_for_each_thread_of_perf_names_the_command(build: Any, tmp_path: Path) -> None:
    data = record(tmp_path / "perf.data", ["--threads", "-e", "cpu-clock", "-F", "999", "-g", "-a"], build("fp"), "300")
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
    assert share_of_differences(stacks(piped.stdout), by_text(tmp_path / "pipe.data")) < 0.01


# --buildid-mmap makes the kernel mark mappings wrongly in recordings beside it.
@pytest.mark.alone
def test_a_file_with_another_build_id_is_not_used(build: Any, tmp_path: Path) -> None:
    path = library(tmp_path)
    kept = tmp_path / "kept.so"
    shutil.copy(path, kept)
    options = ["-e", "cpu-clock", "-g", "-F", "999", "--buildid-mmap"]
    data = record(tmp_path / "perf.data", options, build("fp"), "300", path)
    assert any(b"[libgone.so]" in stack for stack in direct(data)), "deleted"
    library(tmp_path, extra="int another_build_id;\n")
    found = stats(data, tmp_path)
    assert any("libgone.so: not used, its build id is" in note for note in found["notes"]), found["notes"]
    assert not any(b"library_work" in stack for stack in direct(data))
    shutil.copy(kept, path)
    assert any(stack.endswith(b"library_work") for stack in direct(data))


@pytest.mark.alone
def test_mappings_that_another_recording_made_the_kernel_mark_wrongly_keep_their_names(
    build: Any, tmp_path: Path
) -> None:
    options = ["-e", "cpu-clock", "-g", "-F", "999"]
    plain = record(tmp_path / "plain.data", options, build("fp"), "200")
    # It records the other, until its own command ends for want of a writer.
    beside = ["-e", "cpu-clock", "-F", "99", "--buildid-mmap", "-a"]
    reader, writer = os.pipe()
    argv = ["perf", "record", "-q", *beside, "-o", str(tmp_path / "beside.data"), "--", "sh", "-c", "echo; cat"]
    with subprocess.Popen(argv, stdin=reader, stdout=subprocess.PIPE) as perf:
        assert perf.stdout is not None
        perf.stdout.readline()
        # perf 6.1 would abort over such mappings when it looks for build ids itself.
        marked = record(tmp_path / "marked.data", [*options, "--no-buildid"], build("fp"), "200")
        os.close(writer)
    os.close(reader)
    assert all(any(b";main;" in stack for stack in direct(data)) for data in (plain, marked))
    assert not [note for note in stats(marked, tmp_path)["notes"] if "its build id is" in note]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the program makes x86-64 code")
def test_run_time_code_has_the_names_its_process_wrote_down(build: Any, tmp_path: Path) -> None:
    data = record(tmp_path / "perf.data", ["-e", "cpu-clock", "-g", "-F", "999"], build("fp"), "300", "jit")
    try:
        ours = direct(data, "--jit")
        assert any(stack.endswith(b";main;a->b_[j]") for stack in ours), list(ours)[-3:]
        assert share_of_differences(ours, by_text(data, "--jit")) < 0.01
    finally:
        pids = re.findall(rb"-(\d+)/", b"\n".join(direct(data, "--tid")))
        for pid in {int(pid) for pid in pids}:
            Path(f"/tmp/perf-{pid}.map").unlink(missing_ok=True)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the program makes x86-64 code")
@pytest.mark.skipif(os.getuid() != 0, reason="a pid namespace and a /tmp of its own need root")
def test_run_time_code_of_a_container_has_the_names_that_lie_in_it(build: Any, tmp_path: Path) -> None:
    inside = 'exec 9< "$0"; mount -t tmpfs none /tmp; install -m 755 /proc/self/fd/9 /tmp/busy; echo; '
    inside += "exec /tmp/busy 600000 jit"
    argv = ["unshare", "--fork", "--pid", "--mount", "--kill-child", "sh", "-c", inside, str(build("fp"))]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as container:
        try:
            assert container.stdout is not None and container.stdout.readline()
            pid = Path(f"/proc/{container.pid}/task/{container.pid}/children").read_text().strip()
            options = ["-e", "cpu-clock", "-g", "-F", "999", "-p", pid]
            told = record(tmp_path / "told.data", ["--namespaces", *options], "sleep", "0.5")
            plain = record(tmp_path / "plain.data", options, "sleep", "0.5")
            assert any(stack.endswith(b";a->b_[j]") for stack in direct(told, "--jit"))
            # Whose number that is by now is not known without the namespace, which perf 6.12 records unasked.
            shown = ["perf", "script", "--show-namespace-events", "-i", str(plain)]
            unasked = b"RECORD_NAMESPACES" in subprocess.run(shown, capture_output=True, check=True).stdout
            assert any(b"a->b" in stack for stack in direct(plain, "--jit")) == unasked
        finally:
            container.kill()
    # Its number may be another's by now.
    assert not any(b"a->b" in stack for stack in direct(told, "--jit"))


# perf lists files of one path by their inodes.
@pytest.mark.needs("unshare")
@pytest.mark.parametrize("made_first", ["here", "there"])
def test_files_of_one_path_in_two_containers_have_their_own_names_or_none(tmp_path: Path, made_first: str) -> None:
    turn = (
        "static volatile unsigned sink; __attribute__((noinline)) void WORK(void) { for (int i = 0; i < 1 << 16; i++) "
    )
    turn += "sink = sink * 31 + i; } int main(void) { for (;;) { WORK(); sink = sink + 1; } }\n"
    place = tmp_path / "turn"
    programs = [("work_here", place), ("work_there", tmp_path / "there")]
    for name, target in programs if made_first == "here" else reversed(programs):
        compiled(turn, target, *FRAMES, f"-DWORK={name}", "-Wl,--build-id")
    inside = f"mount --bind {tmp_path / 'there'} {place}; exec {place}"
    with (
        subprocess.Popen([place]) as here,
        subprocess.Popen(["unshare", "--mount", "sh", "-c", inside]) as there,
    ):
        try:
            data = record(tmp_path / "perf.data", ["-a", "-e", "cpu-clock", "-g", "-F", "999"], "sleep", "1")
        finally:
            here.kill()
            there.kill()
    ours = direct(data, "--tid")

    def leaves(process: subprocess.Popen[bytes]) -> Counter[bytes]:
        of_it = f"turn-{process.pid}/".encode()
        return Counter({s.split(b";")[-1]: w for s, w in ours.items() if s.startswith(of_it) and b"_[k]" not in s})

    assert leaves(here)[b"work_here"] > 0.9 * sum(leaves(here).values()) > 0
    assert leaves(there)[b"[turn]"] > 0.9 * sum(leaves(there).values()) > 0
    assert any("it is another" in note and str(place) in note for note in stats(data, tmp_path)["notes"])


def test_a_cut_recording_keeps_what_came_before(build: Any, tmp_path: Path) -> None:
    data = record(tmp_path / "perf.data", ["-e", "cpu-clock", "-g", "-F", "4000"], build("fp"), "300")
    whole = data.read_bytes()
    total = sum(direct(data).values())
    weights = []
    for part in range(1, 8):
        cut = tmp_path / "cut.data"
        cut.write_bytes(whole[: len(whole) * part // 8])
        done = run("--no-inlines", cut)
        assert done.returncode == 1, part
        assert re.search(rb"cut short \(byte \d+:", done.stderr) or b"no samples" in done.stderr, done.stderr
        weights.append(sum(stacks(done.stdout).values()))
    assert weights == sorted(weights)
    assert total / 2 < weights[-1] <= total


def test_a_file_that_is_no_recording_is_read_as_text(tmp_path: Path) -> None:
    (tmp_path / "perf.data").write_bytes(b"PERFILE1 is not the magic\n")
    done = run(tmp_path / "perf.data")
    assert done.returncode == 1
    assert b"no samples" in done.stderr
    checked_file = run("check", tmp_path / "perf.data")
    assert checked_file.returncode == 2


@pytest.mark.parametrize("chains", ["--kernel-callchains", "--user-callchains"])
def test_chains_of_one_side_keep_the_leaves_of_the_other(build: Any, tmp_path: Path, chains: str) -> None:
    # Its samples are of both sides: it touches new memory all the time.
    data = record(tmp_path / "perf.data", ["-e", "cpu-clock", "-g", "-F", "2000", chains], build("fp"), "300")
    ours = direct(data)
    assert "cpu-clock: total equal" in checked(data)
    leaves: Counter[bytes] = Counter()
    for stack, weight in ours.items():
        leaves[stack.rpartition(b";")[2]] += weight
    total = sum(ours.values())
    assert not leaves[b"my_pool:12_x"]
    assert leaves[b"engine::deep"] > 0.05 * total
    kernels = sum(weight for leaf, weight in leaves.items() if leaf.endswith(b"_[k]"))
    # The loop that touches memory belongs to main.
    assert 0 < kernels < 0.5 * total
    # perf report's own weights, which are by the places executed.
    reported = json.loads(run("check", "--format", "json", data).stdout)["events"][0]
    difference = sum(abs(row["folded"] - row["reported"]) for row in reported["differences"])
    assert difference < 0.01 * total
