"""The engines and clients that the cells of an experiment name themselves, and the facts of a build."""

from __future__ import annotations

from ground.errors import UsageError
from ioflame.measure.options import ProfileOptions
from workloads.artifact import artifact_facts
from workloads.build import EngineBuild
from workloads.cells import Cell, Cells
from workloads.engine import Engine
from workloads.experiment import own_definitions
from workloads.registry import engine_named


def driver(cell: Cell) -> tuple[str, str]:
    return cell.engine, cell.client


def own_engines(name: str, cells: Cells, options: ProfileOptions) -> dict[tuple[str, str], tuple[Engine, EngineBuild]]:
    """Of cells that name an engine or a client. UsageError for a step that an engine does not have."""
    found = {}
    for cell in cells.cells:
        if any(driver(cell)) and driver(cell) not in found:
            engine = engine_named(cell.engine or options.engine, own_definitions(name), cell.client or None)
            found[driver(cell)] = (
                engine,
                engine.inspect(engine.find_binary(None if engine.by_our_client else options.db_bench)),
            )
            lacking = [step for step in cells.steps_of(cell) if step not in {**engine.steps(), **engine.workloads()}]
            if lacking:
                raise UsageError(f"{cells.name}: {engine.name} has no step {lacking[0]}", means="nothing was started")
    return found


def build_facts(build: EngineBuild) -> dict[str, str]:
    return {
        "version": build.version, "binary": str(build.path), "assertions": "on" if build.assertions else "off",
        "symbols": build.symbols, **build.hardware, **artifact_facts(build),
    }  # fmt: skip
