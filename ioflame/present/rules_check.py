"""Rules of a user's own, and what they make of the stacks of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from folding.stackfold import categorised_profile
from ground.errors import RefusedError, UsageError
from ground.results.files import Files
from ground.results.profile import Folded
from ground.results.run import open_run
from ground.system.atomic_files import read_toml
from ground.system.scratch import scratch_directory
from ioflame.stages.rules import rules_of
from viz.columns import aligned
from viz.printable import printable
from workloads.registry import DEFAULT_ENGINE, service_rules
from workloads.service import rules_text

# Views that the tables need.
_VIEWS = ("owner", "leaf")
_HEAVIEST = 12


class _Row(msgspec.Struct):
    name: str


class _View(msgspec.Struct):
    category: list[_Row]


class _Rules(msgspec.Struct):
    view: dict[str, Any] = {}
    patterns: dict[str, list[str]] = {}


def own_rules(path: Path) -> dict[str, Any]:
    """Rules of the user's own; of the views that tables need, those that it lacks are the default service's.

    UsageError where the file is none, or its views have no rows; what is wrong within a row, stackfold says.
    """
    at = ""
    try:
        rules = read_toml(path)
        for name, view in msgspec.convert(rules, _Rules).view.items():
            at = f"view.{name}: "
            msgspec.convert(view, _View)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise RefusedError(
            f"--rules {path}: {at}{why}", mend="--rules <a TOML file of the form that folding/README.md describes>"
        ) from None
    general = service_rules(DEFAULT_ENGINE)
    views = {**{name: general["view"][name] for name in _VIEWS}, **rules.get("view", {})}
    return {**rules, "view": views, "patterns": {**general.get("patterns", {}), **rules.get("patterns", {})}}


def checked_rules(directory: Path, rules: Path | None) -> tuple[str, list[str]]:
    """What each row has of the stacks of a run and what has none, as text; and the rows that matched nothing.

    rules: a file; None for those of the run
    """
    run = open_run(directory)
    read = own_rules(rules) if rules is not None else read_toml(Path(rules_of(run).categories))
    if not run.path(Files.FOLDED).exists():
        raise UsageError(f"{directory} has no {Files.FOLDED}: no stacks to sort", mend="a run with a CPU profile")
    with scratch_directory() as place:
        file = place / Files.RULES
        file.write_text(rules_text(read), encoding="utf-8")
        counts = run.path(Files.SAMPLE_COUNTS)
        # No profile of another name is there, so that the stacks are sorted anew.
        profile = categorised_profile(place / "none.json", str(file), folded=run.path(Files.FOLDED), counts=counts)
    parts, unmatched = [], []
    for view in [name for name in profile.views if rules is None or name in _named(rules)]:
        text, without = _view_text(profile, view)
        parts.append(text)
        unmatched += [f"{view}: {name}" for name in without]
    return "\n\n".join(parts), unmatched


def _named(rules: Path) -> set[str]:
    return set(read_toml(rules).get("view", {}))


def _view_text(profile: Folded, view: str) -> tuple[str, list[str]]:
    report = profile.views[view].report
    *named, other = report["rows"]
    table = [["row", "%", "n"], *([row["name"], f"{row['share']:.2f}", str(row["samples"])] for row in report["rows"])]
    without = [row["name"] for row in named if not row["weight"]]
    lines = [f"{view} view: {other['share']:.2f} % is in no row", aligned(table)]
    if without:
        lines.append(f"matched nothing: {', '.join(without)}")
    heavy = [f"  {frame['share']:6.2f} %  {printable(frame['frame'])}" for frame in report["other_frames"][:_HEAVIEST]]
    if heavy:
        lines += ["heavy and in no row, by the leaf-most frame of the engine:", *heavy]
    return "\n".join(lines), without
