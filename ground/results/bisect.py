"""`bisect.json`: what a search for a commit has built and measured, so that it can be resumed after an interruption."""

from __future__ import annotations

from dataclasses import dataclass, field

from ground.results.ranges import Amount, Count, Signed
from ground.results.study import StudyRun


@dataclass
class Measured:
    """A session, block by block: ln(bad/good) (`ends`), and the candidate against the middle of both (`off`).

    candidate: its place; None for the ends alone. directory: of its comparison, relative
    """

    candidate: Count | None
    ends: list[Signed]
    off: list[Signed]
    directory: str
    seconds: Amount = 0.0


@dataclass
class BisectRecord:
    """The whole search.

    names:      of commits (or arms) in order, the good end first, the bad one last; titles: what each says of itself
    symptom:    qps, cpuPer, or category:NAME
    binaries, artifacts: by place, of those that were built; SHA-256
    build_seconds: by place; skipped: by place, why it could not be built or did not run
    proof:      what was found of the ends: the verdict in words; differs: None before they were compared
    session_sd: of ln of one process beyond its blocks
    outcome:    the last line of the terminal; "" before
    """

    ioflame: str
    created: str
    symptom: str
    names: list[str]
    titles: list[str]
    repository: str = ""
    build: str = ""
    binary: str = ""
    options: dict[str, str] = field(default_factory=dict)
    binaries: dict[str, str] = field(default_factory=dict)
    artifacts: dict[str, str] = field(default_factory=dict)
    build_seconds: dict[str, Amount] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    proof: str = ""
    differs: bool | None = None
    session_sd: Amount = 0.0
    measured: list[Measured] = field(default_factory=list)
    outcome: str = ""
    schema: int = 1


class BisectRun(StudyRun[BisectRecord]):
    """The directory of a search: its record, built binaries, logs of builds, and comparisons."""

    file = "bisect.json"
    form = BisectRecord
    what = "a search"
    kind = "bisect"

    @staticmethod
    def name_of(record: BisectRecord) -> str:
        del record
        return "bisect"

    @staticmethod
    def identity(record: BisectRecord) -> dict[str, object]:
        return {
            "symptom": record.symptom, "names": record.names, "repository": record.repository,
            "build": record.build, "binary": record.binary, **record.options,
        }  # fmt: skip

    def summary(self) -> tuple[str, str]:
        names = self.record.names
        what = f"{self.record.symptom}, {names[0]} to {names[-1]}" if names else self.record.symptom
        return what, self.record.outcome or "not finished"
