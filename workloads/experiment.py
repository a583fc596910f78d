"""Finds, reads and checks the file of an experiment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from ground.errors import RefusedError, UsageError
from ground.system.atomic_files import read_toml
from ground.text.toml import tomllib
from workloads.cells import BASELINE, Cells
from workloads.definitions import KINDS as DEFINITIONS
from workloads.engine import Engine

_DIRECTORY = Path(__file__).with_name("experiments")


def experiment_names() -> dict[str, str]:
    """The experiments that come with ioflame, each with one line about it."""
    return {
        path.stem: tomllib.loads(path.read_text(encoding="utf-8"))["about"]
        for path in sorted(_DIRECTORY.glob("*.toml"))
    }


def own_definitions(name: str) -> dict[str, Any]:
    """The steps, workloads and configurations that an experiment brings itself, by kind.

    UsageError for a key that an experiment does not have.
    """
    path, data = read_file(name)
    known = [*(key for key in Cells.__struct_fields__ if key != "name"), *DEFINITIONS]
    unknown = sorted(data.keys() - set(known))
    if unknown:
        raise UsageError(f"{path} has {', '.join(unknown)}; an experiment has {', '.join(known)}")
    own = {kind: data[kind] for kind in DEFINITIONS if kind in data}
    if not all(isinstance(definitions, dict) for definitions in own.values()):
        raise UsageError(f"{path}: {', '.join(own)} are tables: [workload.NAME]")
    return own


def read_file(name: str, within: tuple[str, ...] = ()) -> tuple[Path, dict[str, Any]]:
    """The file of an experiment, by its name or path, and what is in it; UsageError where there is none.

    One that is `like` another has what that has, but for its own keys, each of them whole.
    within: those that are like it
    """
    path = Path(name) if name.endswith(".toml") else _DIRECTORY / f"{name}.toml"
    if not path.exists():
        known = "|".join(experiment_names())
        raise RefusedError(f"there is no experiment {name}", mend=f"{known}, or a .toml file")
    try:
        data = read_toml(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is not an experiment: {error!r}") from None
    other = data.pop("like", None)
    if other is None:
        return path, data
    if not isinstance(other, str) or other in (name, *within):
        raise RefusedError(
            f"{path} is like {other!r}, which is no other experiment",
        )
    return path, {**read_file(other, (*within, name))[1], **data}


def read_cells(name: str, engine: Engine, proofs: Sequence[str]) -> Cells:
    """The experiment called `name`, or in the file of that path. UsageError naming what is wrong in it.

    proofs: the names there are
    """
    path, data = read_file(name)
    known: dict[str, Any] = {k: v for k, v in data.items() if k in Cells.__struct_fields__}
    try:
        found = msgspec.convert({**known, "name": path.stem}, Cells).combined().of_engines()
    except msgspec.ValidationError as error:
        raise RefusedError(f"{path} is not an experiment: {error}", mend="docs/experiments.md has its keys") from None
    _check(path, found, engine, proofs)
    return found


def _check(path: Path, found: Cells, engine: Engine, proofs: Sequence[str]) -> None:
    names = [cell.name for cell in found.cells]
    columns = [column.name for column in found.columns]
    rows = [row.name for row in found.table_rows()]
    steps, known = [*engine.steps(), *engine.workloads(), BASELINE], list(engine.configurations())
    given = [cell for cell in found.cells if cell.command]
    wanted = [
        ("cell", "a name of its own", [n for n in names if names.count(n) > 1]),
        ("cell", "a name for files", [n for n in names if "/" in n or n.startswith(".")]),
        (
            "step",
            f"one of {', '.join(steps)}",
            [s for c in found.cells if not c.command for s in found.steps_of(c) if s not in steps],
        ),
        (
            "cell",
            "a command alone, without steps, tree or flags",
            [cell.name for cell in given if cell.steps or cell.tree or cell.flags],
        ),
        (
            "configuration",
            f"one of {', '.join(known)}",
            [c.configuration for c in found.cells if c.configuration and c.configuration not in known],
        ),
        ("proof", f"one of {', '.join(proofs)}", [h.proof for h in found.holds if h.proof not in proofs]),
        (
            "breakdown of the step",
            f"one of {', '.join(steps)}",
            [b.step for b in found.breakdowns if b.step not in (*steps, "last")],
        ),
        (
            "observe",
            f"one of {', '.join(engine.workloads())}",
            [step for step in found.observe if step not in engine.workloads()],
        ),
        ("column", f"one of {', '.join(columns)}", [h.column for h in found.holds if h.column not in columns]),
        ("cell", f"one of {', '.join(rows)}", [c for h in found.holds for c in h.cells if c not in rows]),
        ("cell", f"one of {', '.join(names)}", [c for s in found.scale.values() for c in s.cells if c not in names]),
    ]
    for what, right, wrong in wanted:
        if wrong:
            raise RefusedError(
                f"{path}: {what} {wrong[0]!r} is not {right}",
            )
    if not found.cells or not all(found.steps_of(cell) for cell in found.cells):
        raise RefusedError(f"{path}: a cell without steps", mend='steps = ["load"]')
    database, cells = found.layout.database, found.cells
    if given and database != "none":
        raise RefusedError(
            f"{path}: cell {given[0].name!r} is a command, which brings its own database",
            mend='[layout] database = "none"',
        )
    if database in ("shared", "grown") and any(c.tree or c.compression or c.block_size for c in cells):
        raise UsageError(f"{path}: a {database} database has one tree; a cell has another", mend='database = "own"')
    if not (database == "grown") == cells[0].once == any(c.once for c in cells):
        raise UsageError(
            f"{path}: a grown database, and no other, is made by cells that are run once, the first of all"
        )
