"""Names for off-CPU stacks: stackfold reads the recording the eBPF room wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from folding.stackfold import run_stackfold
from ground.errors import MeasurementError
from ground.results.files import Files
from ground.results.off_cpu import OffStack
from ground.results.profile import Folded, FoldedStack, read_profile
from ground.results.states import MARKS, STATES
from ground.system.atomic_files import check_readable, write_whole

# The recording's events: ns, and the number of stretches.
_TIME, _COUNT = "off-cpu", "off-cpu-count"
_VIEW = "owner"
_KERNEL = "_[k]"
_WOKEN_BY = MARKS["woken_by"]
_MARKS = tuple(MARKS.values())


def fold_off_cpu(recording: Path, rules: str) -> list[OffStack]:
    """Folds a recording into `offcpu.profile.json`, `offcpu.folded` (ns) and `offcpu.counts.folded` beside it, and
    returns the stacks, each with its category in the owner view of `rules`.

    A line of the folded text is `comm;root;...;leaf;[state]`, a waker's frames behind.
    MeasurementError where stackfold cannot read it.
    """
    directory = recording.parent
    profile = directory / Files.OFF_CPU_PROFILE
    # Without inlined functions, as a profile's stacks have none.
    argv = ["--kernel", "--no-inlines", "--event", _TIME, "--count-event", _COUNT]
    argv += ["--states", ",".join(f"[{state}]" for state in STATES), str(check_readable(recording))]
    run_stackfold(argv, profile, rules, [_VIEW]).require(f"stackfold on {recording}")
    stacks = _stacks(read_profile(profile))
    _write(directory / Files.OFF_CPU_FOLDED, ((_line(stack), stack.ns) for stack in stacks))
    _write(directory / Files.OFF_CPU_COUNTS, ((_line(stack), stack.count) for stack in stacks))
    return stacks


def off_cpu_stacks(recording: Path, rules: str) -> list[OffStack]:
    """The stacks of a recording, as `fold_off_cpu` left them beside it; folded where it did not.

    MeasurementError where stackfold cannot read it.
    """
    profile = recording.with_name(Files.OFF_CPU_PROFILE)
    return _stacks(read_profile(profile)) if profile.exists() else fold_off_cpu(recording, rules)


def _stacks(profile: Folded) -> list[OffStack]:
    return [_stack(stack) for stack in profile.each_stack(_VIEW)]


def _stack(stack: FoldedStack) -> OffStack:
    if not stack.state or stack.tid is None:
        raise MeasurementError(f"a stack of {Files.OFF_CPU_DATA} has no state or no thread: {stack.frames!r:.200}")
    frames = tuple(_plain(frame) for frame in stack.frames)
    return OffStack(stack.tid, stack.comm, stack.state[1:-1], frames, stack.weight, stack.samples or 0, stack.category)


def _plain(frame: str) -> str:
    """The recording has our marks among the kernel's frames, though they are not the kernel's."""
    return frame.removesuffix(_KERNEL) if frame.startswith(_MARKS) else frame


def _line(stack: OffStack) -> str:
    """Its frames as folded text has them, the thread's name first and the state behind the frame that blocked."""
    cut = stack.frames.index(_WOKEN_BY) if _WOKEN_BY in stack.frames else len(stack.frames)
    return ";".join((stack.comm, *stack.frames[:cut], f"[{stack.state}]", *stack.frames[cut:]))


def _write(path: Path, rows: Iterable[tuple[str, int]]) -> None:
    """Threads of one name become one."""
    sums: Counter[str] = Counter()
    for line, weight in rows:
        sums[line] += weight
    text = "".join(f"{line} {weight}\n" for line, weight in sorted(sums.items()))
    write_whole(path, text.encode())
