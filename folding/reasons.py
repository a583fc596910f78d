"""What requests of a device were sent for: by stacks that the eBPF room wrote, each a thread of its own number."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from folding.stackfold import run_stackfold
from ground.results.profile import read_profile

_VIEW = "reasons"


def fold_reasons(
    recording: Path, profile: Path, rules: Path, options: Sequence[str] = ()
) -> tuple[dict[int, str], dict[str, str]]:
    """Folds the recording into `profile`; the reason of each stack by its thread's number, and what each reason is.

    options: of stackfold. MeasurementError where it cannot read the recording.
    """
    argv = [*options, "--no-inlines", str(recording)]
    run_stackfold(argv, profile, str(rules), [_VIEW]).require(f"stackfold on {recording}")
    folded = read_profile(profile)
    labels = {row["name"]: row["label"] for row in folded.views[_VIEW].report["rows"]}
    return {stack.tid: stack.category for stack in folded.each_stack(_VIEW) if stack.tid is not None}, labels
