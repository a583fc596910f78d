"""Compares the frames of two sides, each of many profiles or of a folded text: one call of `stackfold diff --runs`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from folding.stackfold import run_stackfold, stackfold_binary
from ground.results.frame_differences import FrameDifferences, read_frame_differences
from ground.system.atomic_files import write_json
from ground.system.process import capture
from ground.system.scratch import scratch_directory

_TIMEOUT = 600


@dataclass(frozen=True)
class ProfileRun:
    """One profile of a side.

    queries:      in the window of the profile
    us_per_query: CPU of the whole profile per query; None: its weight, in ns, by its queries
    session:      profiles of one process have one; "" for a session of its own
    """

    profile: Path
    queries: float
    us_per_query: float | None = None
    session: str = ""


def compare_frames(
    sides: Sequence[tuple[str, Sequence[ProfileRun]]],
    out: Path,
    *,
    aliases: Sequence[Path] = (),
    apart: Sequence[str] = (),
    intervals: Literal["sessions", "samples", "shares"] = "sessions",
    matching: str = "",
) -> FrameDifferences:
    """The frames of the second side against the first's, kept in the file `out`.

    aliases: files of names that are one function; apart: names that no rule may take for another.
    intervals: `samples`: of chance in sampling alone, for sides of one profile each, which have no repeats; `shares`:
               the same where both cost the same, so that shares are compared
    matching:  rules by which names of the two sides may be one function; all of stackfold's where it is empty
    MeasurementError when a profile cannot be read.
    """
    request = {
        "schema": 1,
        "aliases": [str(path.resolve()) for path in aliases],
        "apart": list(apart),
        "intervals": intervals,
        "sides": [{"name": name, "runs": [_run(run) for run in runs]} for name, runs in sides],
    }
    with scratch_directory() as place:
        asked = place / "request.json"
        write_json(asked, request)
        rules = ["--matching", matching] if matching else []
        argv = [stackfold_binary(), "diff", "--runs", str(asked), "-o", str(out), *rules]
        capture(argv, timeout=_TIMEOUT).require("stackfold diff")
    return read_frame_differences(out)


def compare_folded(sides: Sequence[tuple[str, Path, float]], out: Path) -> FrameDifferences:
    """The frames of the second side's folded text against the first's, kept in the file `out`. Without intervals: the
    weights are no numbers of samples.

    sides: name, text, and what the whole of it costs, us a query. MeasurementError where one cannot be read
    """
    with scratch_directory() as place:
        runs = []
        for number, (name, text, us) in enumerate(sides):
            profile = place / f"{number}.json"
            run_stackfold(["--kernel", str(text)], profile).require(f"stackfold on {text}")
            runs.append((name, [ProfileRun(profile, 1, us)]))
        # Names that are guessed for one would hide what is in one side alone.
        return compare_frames(runs, out, intervals="samples", matching="canonical")


def _run(run: ProfileRun) -> dict[str, Any]:
    found: dict[str, Any] = {"profile": str(run.profile.resolve()), "queries": run.queries}
    if run.us_per_query is not None:
        found["us_per_query"] = run.us_per_query
    if run.session:
        found["session"] = run.session
    return found
