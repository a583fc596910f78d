"""Calls the `stackfold` binary: one run of it makes stacks, categories and a comparison with perf report."""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal

from ground.results.files import Files
from ground.results.profile import Folded, read_profile
from ground.results.redaction import Redaction, read_redaction
from ground.system.atomic_files import check_lines, write_json
from ground.system.binaries import built_binary
from ground.system.process import Output, capture, tool_path
from ground.system.scratch import scratch_directory

# A recording of many gigabytes takes minutes; what takes longer than this hangs.
_TIMEOUT = 1800


def stackfold_binary() -> str:
    """The binary that `make setup` builds. HostError when it is not there."""
    return str(built_binary("stackfold"))


def fold(
    perf_data: Path,
    directory: Path,
    pids: Sequence[int],
    *,
    rules: str | None = None,
    check: Literal["symbols", "totals"] | None = None,
    event: str | None = None,
    without: Collection[str] = (),
) -> Folded:
    """Folds the samples of `pids` into `directory`: `profile.json`, and the same stacks as folded text by weight, by
    number of samples and by second, as pprof, with statistics.

    rules: sort the stacks by all views of these rules
    without: views of them that are left out
    check: compare with perf report, whose account is kept as well: by symbol, or the totals, which takes it a second of
    CPU less
    Inlined functions are left out: with them, the stacks of a stripped engine and of one with debug information would
    differ. MeasurementError when the recording cannot be folded whole; what could be folded is kept. A recording
    that perf report cannot read is folded all the same, and says why it is `unchecked`.
    """
    argv = ["--kernel", "--no-inlines", "--only-pid", ",".join(map(str, pids))]
    argv += ["--threads", str(len(os.sched_getaffinity(0)))]
    argv += ["--slice-ms", "1000", "-o", str(directory / Files.FOLDED), "--slices", str(directory / Files.SLICES)]
    argv += ["--counts", str(directory / Files.SAMPLE_COUNTS), "--stats", str(directory / Files.FOLD_STATS)]
    argv += ["--pprof", str(directory / Files.PPROF), *(["--event", event] if event else [])]
    if check:
        tool_path("perf", "linux-perf")
        argv.append(f"--check={check}")
    profile = directory / Files.PROFILE
    if rules and without:
        argv += ["--without-views", ",".join(without)]
    argv += ["--input-format", "perf-data", str(perf_data)]
    done = run_stackfold(argv, profile, rules)
    found = read_profile(profile) if profile.exists() else None
    if found is None or found.unchecked is None:
        done.require("stackfold")
    assert found is not None
    if found.check is not None:
        write_json(directory / Files.FOLD_CHECK, found.check)
    return found


def run_stackfold(
    argv: Sequence[str],
    profile: Path,
    rules: str | None = None,
    views: Sequence[str] = (),
    data: bytes | None = None,
) -> Output:
    """Folds anything into the file `profile`; how stackfold ended.

    argv: what to fold, and what else to write; data: standard input
    rules, views: sort the stacks by these views of these rules; by all of them where none is named
    """
    sorting = ["--rules", rules, *(["--views", ",".join(views)] if views else [])] if rules else []
    copies = profile.parent / Files.MAPPED
    of_target = ["--symfs", str(copies)] if copies.is_dir() else []
    command = [stackfold_binary(), "-q", "--profile", str(profile), *sorting, *of_target, *argv]
    # What an earlier run left is not taken for this one's, should it fail.
    profile.unlink(missing_ok=True)
    done = capture(command, timeout=_TIMEOUT, stdin=data)
    if (redaction := read_redaction(profile.parent)) is not None:
        _redact(redaction, profile, argv)
    return done


def _redact(redaction: Redaction, profile: Path, argv: Sequence[str]) -> None:
    """What stackfold wrote; pprof is made again of the folded text: threads and objects are not in it any more."""
    written = {option: Path(value) for option, value in itertools.pairwise(argv) if option.startswith("-")}
    stacks = [path for option in ("-o", "--counts", "--slices") if (path := written.get(option)) and path.exists()]
    if not profile.exists():
        for path in (*stacks, *(path for option in ("--pprof", "--stats") if (path := written.get(option)))):
            path.unlink(missing_ok=True)
        return
    redaction.redact(profile, stacks, written.get("--stats"))
    if pprof := written.get("--pprof"):
        pprof.unlink(missing_ok=True)
        counted = ["--counts-from", str(written["--counts"]), "-o", str(pprof), str(written["-o"])]
        if written["-o"].stat().st_size:
            capture([stackfold_binary(), "-q", *counted], timeout=_TIMEOUT).require("stackfold (pprof)")


def categorised_profile(
    profile: Path,
    rules: str,
    *,
    folded: Path,
    counts: Path,
    views: Sequence[str] = (),
    states: Sequence[str] = (),
) -> Folded:
    """The profile in a run directory. Where there is none, as in runs of ioflame 0.1.0, it is made of the folded
    stacks, which know neither threads nor objects.

    counts: numbers of samples of `folded`; states: frames that are the state of their thread
    """
    if profile.exists():
        return read_profile(profile)
    numbers = ["--counts-from", str(check_lines(counts))] if counts.exists() else []
    stated = ["--states", ",".join(states)] if states else []
    with scratch_directory() as place:
        made = place / profile.name
        argv = ["--kernel", *numbers, *stated, str(check_lines(folded))]
        run_stackfold(argv, made, rules, views).require("stackfold")
        return read_profile(made)
