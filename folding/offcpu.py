"""Names for off-CPU stacks: stackfold reads the recording the eBPF room wrote."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from folding.stackfold import stackfold_binary
from ioflame.errors import MeasurementError
from ioflame.files import Files
from ioflame.offcpu import STATES, OffStack
from ioflame.process import capture
from ioflame.whole import check_readable, read_whole, write_whole

__all__ = ("categorise_off_cpu", "fold_off_cpu", "folded_line", "off_cpu_stacks")

# The recording's events, ns and number of stretches, and where each is kept as stackfold folds it: by thread.
_TIME = ("off-cpu", Files.OFF_CPU_THREADS)
_COUNT = ("off-cpu-count", Files.OFF_CPU_THREAD_COUNTS)
_KERNEL = "_[k]"
# Marks of ours stand among the kernel's frames in the recording; they are none.
_MARKS = {
    f"[{name}]" for name in (*STATES, "woken by", "interrupt", "blocked before the window", "new thread", "lost stack")
}
_WAKER = "[waker "
_WEIGHT = re.compile("[0-9]{1,39}")


def fold_off_cpu(recording: Path) -> list[OffStack]:
    """Folds a recording into `offcpu.folded` (ns) and `offcpu.counts.folded` beside it, and returns the stacks.

    A line is `comm;root;...;leaf;[state]`, a waker's frames behind. The same by thread is kept for `off_cpu_stacks`.
    MeasurementError where stackfold cannot read it.
    """
    directory = recording.parent
    for event, name in (_TIME, _COUNT):
        write_whole(directory / name, _fold(recording, event))
    stacks = off_cpu_stacks(recording)
    _write(directory / Files.OFF_CPU_FOLDED, ((folded_line(stack), stack.ns) for stack in stacks))
    _write(directory / Files.OFF_CPU_COUNTS, ((folded_line(stack), stack.count) for stack in stacks))
    return stacks


def off_cpu_stacks(recording: Path) -> list[OffStack]:
    """The stacks of a recording, as `fold_off_cpu` left them beside it since; folded anew where it did not.

    MeasurementError where stackfold cannot read it.
    """
    counts = dict(_lines(recording, *_COUNT))
    return [_stack(text, ns, counts.get(text, 0)) for text, ns in _lines(recording, *_TIME)]


def folded_line(stack: OffStack) -> str:
    """Its frames as folded text has them, the thread's name first and the state behind the frame that blocked."""
    cut = stack.frames.index("[woken by]") if "[woken by]" in stack.frames else len(stack.frames)
    return ";".join((stack.comm, *stack.frames[:cut], f"[{stack.state}]", *stack.frames[cut:]))


def categorise_off_cpu(stacks: Iterable[OffStack], rules: str, view: str = "owner") -> dict[str, int]:
    """ns by category of the rules' view; a waker's frames decide nothing."""
    lines = [f"{folded_line(stack).partition(';[woken by]')[0]} {stack.ns}\n" for stack in stacks]
    if not lines:
        return {}
    argv = [stackfold_binary(), "categories", "--rules", rules, "--view", view, "--format", "json", "-"]
    output = capture(argv, timeout=600, stdin="".join(lines).encode("utf-8", "surrogateescape"))
    rows = json.loads(output.require("stackfold categories").stdout)["rows"]
    return {row["name"]: row["weight"] for row in rows}


def _fold(recording: Path, event: str) -> bytes:
    """Folded stacks with process and thread in the first frame, without inlined functions, as a profile's have none."""
    argv = [stackfold_binary(), "--event", event, "--kernel", "--no-inlines", "--tid", "-q"]
    argv.append(str(check_readable(recording)))
    return capture(argv, timeout=600).require(f"stackfold on {recording}").stdout


def _kept(recording: Path, event: str, name: str) -> bytes:
    path = recording.with_name(name)
    try:
        kept = path.stat().st_mtime_ns >= recording.stat().st_mtime_ns
    except FileNotFoundError:
        kept = False
    return read_whole(path) if kept else _fold(recording, event)


def _lines(recording: Path, event: str, name: str) -> Iterator[tuple[str, int]]:
    """Stack and weight; any byte may stand in a name. MeasurementError where it is cut short or no folded text."""
    text = _kept(recording, event, name).decode("utf-8", "surrogateescape")
    *lines, rest = text.split("\n")
    for number, line in enumerate([*lines, rest] if rest or not lines else lines, 1):
        stack, _, weight = line.rpartition(" ")
        # Each line ends in a line feed: a number that does not may lack its last digits.
        if not stack or not _WEIGHT.fullmatch(weight) or number > len(lines):
            raise MeasurementError(
                f"line {number} of {name} is no stack with its weight: {line[:120]!r}",
                means="the file is damaged or cut short",
                mend=f"ioflame analyse {shlex.quote(str(recording.parent))}   (makes it anew from {recording.name})",
            )
        yield stack, int(weight)


def _stack(text: str, ns: int, count: int) -> OffStack:
    head, *frames = text.split(";")
    # comm-PID/TID; the name may hold both signs.
    comm, _, ids = head.rpartition("-")
    tid = ids.rpartition("/")[2]
    plain = [_plain(frame) for frame in frames]
    states = [place for place, frame in enumerate(plain) if frame[1:-1] in STATES and frame in _MARKS]
    if not states or not tid.isdigit():
        raise MeasurementError(f"a stack of {Files.OFF_CPU_DATA} has no state or no thread: {text[:200]!r}")
    place = states[-1]
    return OffStack(int(tid), comm, plain[place][1:-1], (*plain[:place], *plain[place + 1 :]), ns, count)


def _plain(frame: str) -> str:
    bare = frame.removesuffix(_KERNEL)
    return bare if bare in _MARKS or bare.startswith(_WAKER) else frame


def _write(path: Path, rows: Iterable[tuple[str, int]]) -> None:
    """Threads of one name become one."""
    sums: Counter[str] = Counter()
    for line, weight in rows:
        sums[line] += weight
    text = "".join(f"{line} {weight}\n" for line, weight in sorted(sums.items()))
    write_whole(path, text.encode("utf-8", "surrogateescape"))
