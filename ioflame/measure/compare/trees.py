"""The trees that arms read: one for all, loaded by the oldest engine, or one for each. Each arm opens its own copy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ground.errors import MeasurementError
from ground.results.comparison import ComparisonRun
from ground.system.process import Children
from ground.text.progress import Reporter
from ioflame.measure.compare.arms import PlannedArm, oldest
from ioflame.measure.compare.own_commands import CommandJob, closed_to_others
from ioflame.measure.job import describe_database
from workloads.clones import clones
from workloads.database import Database, locked
from workloads.engine import Tree
from workloads.scales import DatabaseShape


@dataclass(frozen=True)
class Placed:
    """The arms by name, each with a job whose database is its own copy, and its tree as the arm itself finds it.

    seeds: the database whose ledger gives every process its seeds, so that no two read the same keys
    """

    arms: Mapping[str, PlannedArm]
    trees: Mapping[str, Tree]
    seeds: Database


@contextlib.contextmanager
def placed(arms: Sequence[PlannedArm], study: ComparisonRun, reporter: Reporter) -> Iterator[Placed | None]:
    """Within: every tree is loaded, locked and copied. None where an arm cannot open its own; the record says which."""
    record = study.record
    with contextlib.ExitStack() as stack:
        if isinstance(arms[0].job, CommandJob):
            found, seeds = _given_trees(arms, stack)
        else:
            found, seeds = _loaded_trees(arms, study, reporter, stack)
        trees = {}
        # An arm may open now what it could not before.
        record.not_comparable.clear()
        for recorded in record.arms:
            arm = found[recorded.name]
            try:
                trees[arm.name] = _seen_by(arm, study.directory, reporter)
            except MeasurementError as error:
                record.not_comparable.append(f"arm {arm.name} cannot open the tree: {error.what}")
                continue
            recorded.database = describe_database(arm.job, trees[arm.name]).as_text()
        study.save()
        yield Placed(found, trees, seeds) if not record.not_comparable else None


def _loaded_trees(
    arms: Sequence[PlannedArm], study: ComparisonRun, reporter: Reporter, stack: contextlib.ExitStack
) -> tuple[dict[str, PlannedArm], Database]:
    """Each loaded by us where it is not there yet."""
    found: dict[str, PlannedArm] = {}
    seeds = None
    for directory, members in _by_tree(arms, study.record.plan.tree == "shared").items():
        stack.enter_context(locked(directory))
        loader = oldest(members)
        database = replace(loader.job, db_dir=directory).database()
        with Children() as children:
            if not database.check():
                database.load(children, reporter, study.directory / f"load-{loader.name}.log")
            database.settle(children, reporter, study.directory / f"settle-{loader.name}.log")
        seeds = seeds or database
        found |= _on_copies(members, directory, stack, foreign=False)
    assert seeds is not None
    return found, seeds


def _given_trees(arms: Sequence[PlannedArm], stack: contextlib.ExitStack) -> tuple[dict[str, PlannedArm], Database]:
    """Those of the user's, which are read and left as they are."""
    groups: dict[Path, list[PlannedArm]] = {}
    for arm in arms:
        groups.setdefault(arm.job.db_dir, []).append(arm)
    found: dict[str, PlannedArm] = {}
    for directory, members in groups.items():
        stack.enter_context(closed_to_others(directory))
        found |= _on_copies(members, directory, stack, foreign=True)
    return found, arms[0].job.database()


def _on_copies(
    members: Sequence[PlannedArm], directory: Path, stack: contextlib.ExitStack, *, foreign: bool
) -> dict[str, PlannedArm]:
    link = all(arm.job.configuration.direct or arm.job.configuration.cached_by_engine for arm in members)
    names = [arm.name for arm in members]
    steps = [arm.job.engine.step(arm.job.options.workload) for arm in members]
    written = any(step.changing and not step.creates for step in steps)
    copies = stack.enter_context(
        clones(members[0].job.engine, directory, names, link=link, foreign=foreign, written=written)
    )
    return {
        arm.name: replace(arm, job=replace(arm.job, db_dir=copy)) for arm, copy in zip(members, copies, strict=True)
    }


def _by_tree(arms: Sequence[PlannedArm], shared: bool) -> dict[Path, list[PlannedArm]]:
    base, first = arms[0].job.db_dir, arms[0].job.sizing.shape
    usual = asdict(DatabaseShape(first.num_keys, tree=first.tree))
    groups: dict[Path, list[PlannedArm]] = {}
    own: dict[str, Path] = {}
    for arm in arms:
        # Of what loads it, so that no comparison takes another arm's tree for its own.
        shape = asdict(arm.job.sizing.shape)
        other = [f"{name}-{value}" for name, value in shape.items() if value != usual[name]]
        by = [base.name, arm.record.tools["engine_artifact"][:8], *other]
        own[arm.name] = base if shared else own.get(arm.twin_of, base.with_name("-".join(by)))
        groups.setdefault(own[arm.name], []).append(arm)
    return groups


def _seen_by(arm: PlannedArm, directory: Path, reporter: Reporter) -> Tree:
    with Children() as children:
        return arm.job.database().tree(children, reporter, directory / f"levels-{arm.name}.log")
