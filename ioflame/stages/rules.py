"""The rules that a run's stacks are sorted by."""

from __future__ import annotations

from dataclasses import replace

from ground.results.files import Files
from ground.results.run import Run
from workloads.registry import DEFAULT_ENGINE, Rules, engine_names, rules_named, service_named, service_names


def rules_of(run: Run) -> Rules:
    """Those of its engine; a run that was attached to a service keeps its own."""
    known = run.record.engine in engine_names()
    rules = rules_named(run.record.engine if known or run.record.target is None else DEFAULT_ENGINE)
    if run.record.engine in service_names() and not service_named(run.record.engine).extends:
        rules = replace(rules, findings=(), reasons=())  # of an engine that is not in it
    own = run.path(Files.RULES)
    return replace(rules, categories=str(own)) if own.exists() else rules
