"""Instructions of what the workload does, counted beside its times: of the same builds, on small trees."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from collectors.repeatable import ALLOCATORS
from ground.errors import UsageError
from ground.results.comparison import BUILD, ComparisonRun
from ground.settings import Setting
from ground.text.progress import Reporter
from ioflame.measure.compare.arms import PlannedArm
from ioflame.measure.count.conduct import conduct
from ioflame.measure.count.plan import PADDINGS, CountOptions, PlannedCount, planned_of
from workloads.counted_operations import counted_plan


def planned_beside(arms: Sequence[PlannedArm], factor: str, operations: Sequence[str]) -> PlannedCount:
    """operations: none for those that the workload does. UsageError for arms that cannot be counted."""
    if factor != BUILD or any(arm.environment for arm in arms):
        raise UsageError(
            "--count: the arms differ by more than their builds, and a count is of builds alone",
            means="nothing was started",
            mend="without --count; `ioflame count --per FUNCTION -- COMMAND` counts a command unchanged",
        )
    base = arms[0].job
    engine = base.engine
    if not engine.by_our_client:
        raise UsageError(
            f"--count: {base.build.path} cannot be counted operation by operation; our client can",
            means="nothing was started",
            mend=f"{Setting.ROCKSDB.to('<a release or a library>,<another>')}, without --arm",
        )
    asked = operations or counted_plan(engine.name, engine.file(".")).of_workload(base.options.workload)
    builds = {arm.name: arm.job.build for arm in arms if not arm.twin_of}
    options = CountOptions(
        engine.name,
        None,
        base.options.library,
        asked,
        ALLOCATORS[0],
        len(PADDINGS),
        len(os.sched_getaffinity(0)),
        base.options.out,
    )
    return planned_of(options, engine, builds)


def count_beside(plan: PlannedCount, going: ComparisonRun, reporter: Reporter) -> None:
    """Into the comparison's directory; nothing where that has been done. One that was cut short is begun anew."""
    done = going.count()
    if done is not None and done.operations.keys() >= set(plan.names):
        return
    shutil.rmtree(going.counted, ignore_errors=True)
    going.counted.mkdir()
    conduct(plan, plan.record(), going.counted, reporter)
