"""`findings.json`: what a run shows, in a sentence each."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ground.results.files import Files
from ground.results.interval import Interval
from ground.system.atomic_files import read_json


@dataclass(frozen=True)
class Finding:
    """A rule that holds.

    us:    us per query, with its interval; n: samples or queries it rests on
    frame: the heaviest of the rule's frames, "" for a stage of the latency ladder
    do:    what changes it; source: why this is so
    see:   the part of the report that shows it: `graph`, `where`, `waits` or `time`
    """

    name: str
    sentence: str
    us: Interval
    frame: str
    do: str
    source: str
    see: str


@dataclass(frozen=True)
class Findings:
    """The findings of a run, the dearest first."""

    findings: list[Finding] = field(default_factory=list)
    schema: int = 1


def read_findings(directory: Path) -> list[Finding]:
    """Those of a run directory, none where it has none; MeasurementError where the file is of another form."""
    path = directory / Files.FINDINGS
    return read_json(path, Findings).findings if path.exists() else []
