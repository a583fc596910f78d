"""`comparison.json`: what was compared, by which plan, and every window that was measured.

A comparison is a directory of its own. Sessions hold blocks, blocks hold windows. In each session each arm has a
process of its own, whose run directory lies beside (`Process.directory`): run.json, the client's log, perf.data,
profile.json and so on, as of a run of `ioflame profile`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ground.results.compilers import compilers_apart
from ground.results.counted import CountRecord, CountRun
from ground.results.files import Files
from ground.results.ranges import Amount, Count, Share
from ground.results.record import Window
from ground.results.study import StudyRun
from ground.results.verdicts import VERDICT, Verdicts
from ground.system.atomic_files import read_json

# The factor of arms that are given as clients and not as values of a setting; of one client given twice.
BUILD = "engine build"
NOTHING = "nothing"
# Of arms that are whole command lines: all that differs between these.
COMMAND_LINE = "command line"
# What of `differing` follows from the client or the library that an arm is, whichever they are; from a setting.
OF_A_BUILD = ("engine version", "tool ")
_OF_A_SETTING = ("option ", "setting ", "database ", "threads")


@dataclass
class Factor:
    """What is meant to differ: `engine build`, or the name of a setting (`cache_type`)."""

    name: str
    values: list[str]

    @property
    def is_build(self) -> bool:
        return self.name == BUILD

    @property
    def is_command(self) -> bool:
        return self.name == COMMAND_LINE


@dataclass
class Arm:
    """One value of the factor, and what ran for it. The first arm of a comparison is the base.

    value:       of the factor: the client's path, or the setting's value
    twin_of:     the arm that this one repeats as a negative control; "" for an arm of its own
    environment: variables that it alone is started with
    options:     of its runs; identity: of client, engine and libraries, by name, as `tools` of a run has them
    database:    of its tree, as `database` of a run has it
    """

    name: str
    value: str
    threads: Count
    twin_of: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    identity: dict[str, str] = field(default_factory=dict)
    database: dict[str, str] = field(default_factory=dict)


@dataclass
class Plan:
    """Everything that decides, fixed before the first window.

    schedule:         `frozen`, `process` or `duet`; tree: `shared` or `own`
    seed:             of the order of blocks and of whatever else is random
    delta:            the smallest difference that matters, as a part (0.02)
    looks:            after how many sessions there is a look at the figures, each at its part of 5 %
    sessions:         the most; the last look is there, or where the time is over
    blocks:           of a session, without those that are repeated
    window_seconds:   of a window, without dropped_seconds after each thaw
    profile_seconds:  of the window of each observer in `collect`, one an arm and session
    time_limit:       seconds; None without one
    bounds:           a block is repeated when one of these is passed in one of its windows: `steal`, as a part of all
                      CPU time; `foreign reads`, of the bytes read from the device; `writes`, MiB a second of the
                      process. At most the part repeats_at_most of all blocks is repeated
    rule:             of the verdict, by name
    relink:           the command that linked every arm anew for each session; "" where none did
    """

    schedule: str
    tree: str
    seed: Count
    delta: Share
    looks: list[Count]
    sessions: Count
    blocks: Count
    window_seconds: Amount
    dropped_seconds: Amount
    profile_seconds: Amount
    collect: list[str] = field(default_factory=list)
    time_limit: Amount | None = None
    bounds: dict[str, Amount] = field(default_factory=dict)
    repeats_at_most: Share = 0.25
    rule: str = ""
    relink: str = ""


@dataclass
class BlockWindow:
    """A window of one arm. position: in its block, from 0; seconds: the same window second by second."""

    arm: str
    position: Count
    window: Window
    seconds: list[Window] = field(default_factory=list)


@dataclass
class Block:
    """The windows of one block in the order of their time.

    disturbed: which bounds of the plan were passed in it; dropped: why it does not count; "" where it does
    """

    order: list[str]
    windows: list[BlockWindow] = field(default_factory=list)
    disturbed: str = ""
    dropped: str = ""


@dataclass
class Process:
    """A process of an arm in one session.

    directory:         its run directory, relative to the comparison's
    environment_bytes: by which its environment was made larger, at random
    warm_up:           None where it was not reached
    """

    arm: str
    directory: str
    environment_bytes: Count
    pid: Count = 0
    warm_up: Window | None = None


@dataclass
class Session:
    """New processes of every arm, and the blocks measured with them.

    processes: in the order of their start
    ended:     why it does not count (`interrupted`); "" for a whole one. whole: every block was measured
    started:   Unix seconds; seconds: that it took
    """

    number: Count
    started: Amount
    processes: list[Process] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    whole: bool = False
    ended: str = ""
    seconds: Amount = 0.0

    def counted(self) -> Iterator[Block]:
        """The blocks that were not dropped."""
        return (block for block in self.blocks if not block.dropped)


@dataclass
class Comparison:
    """The whole comparison.

    differing:      what of the arms differs, the factor and what follows from it included: its name, and the value of
                    each arm
    not_comparable: why no verdict can be given, whatever the figures; empty where one can
    callgraph:      of all profiles, as the trials of the first session chose it; "" before
    """

    ioflame: str
    created: str
    engine: str
    workload: str
    factor: Factor
    plan: Plan
    arms: list[Arm]
    host: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    differing: dict[str, list[str]] = field(default_factory=dict)
    not_comparable: list[str] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)
    callgraph: str = ""
    schema: int = 1

    @property
    def base(self) -> Arm:
        return self.arms[0]

    @property
    def twin(self) -> Arm | None:
        """The negative control; None where there is none."""
        return next((arm for arm in self.arms if arm.twin_of), None)

    @property
    def besides(self) -> dict[str, list[str]]:
        """What differs and neither is the factor nor follows from it."""
        arms = [arm for arm in self.arms if not arm.twin_of]
        own = {f"environment {name}" for arm in arms for name in arm.environment}

        def of_build(name: str, values: list[str]) -> bool:
            # The option that the client is given by has what the arm was asked for with.
            given = name.startswith("option ") and all(a.value.endswith(v) for a, v in zip(arms, values, strict=True))
            return given or name in own or name.startswith(OF_A_BUILD)

        def of_command(name: str, values: list[str]) -> bool:
            return name.startswith(("-", *_OF_A_SETTING)) or of_build(name, values)

        def of_setting(name: str, _: list[str]) -> bool:
            return name.startswith(_OF_A_SETTING)

        follows = of_build if self.factor.is_build else of_command if self.factor.is_command else of_setting
        return {name: values for name, values in self.differing.items() if not follows(name, values)}

    @property
    def compilers(self) -> str:
        """A sentence where versions are compared that different compilers built; else ""."""
        if not (self.factor.is_build or self.factor.is_command):
            return ""
        identities = {arm.name: arm.identity for arm in self.arms if not arm.twin_of}
        return compilers_apart(
            {name: (one.get("engine", ""), one.get("engine_compiler", "")) for name, one in identities.items()}
        )

    @property
    def notes(self) -> list[str]:
        """Sentences that a reader of its verdict has to know first."""
        relinked = "Every session linked every arm anew: all intervals hold the order of functions as well."
        return [*filter(None, [self.compilers]), *([relinked] if self.plan.relink else [])]

    def arm(self, name: str) -> Arm:
        """KeyError where there is none of that name."""
        found = {arm.name: arm for arm in self.arms}
        return found[name]

    def whole_sessions(self) -> list[Session]:
        """Those that count."""
        return [session for session in self.sessions if session.whole]


class ComparisonRun(StudyRun[Comparison]):
    """A comparison's directory: its record, and the run directories of its processes."""

    file = "comparison.json"
    form = Comparison
    what = "a comparison"
    kind = "comparison"

    @staticmethod
    def name_of(record: Comparison) -> str:
        return f"compare-{record.workload}"

    @staticmethod
    def identity(record: Comparison) -> dict[str, object]:
        plan = record.plan
        found: dict[str, object] = {
            "factor": record.factor, "boot": record.host.get("boot_id"), "delta": plan.delta,
            "schedule": plan.schedule, "window": plan.window_seconds, "relink": plan.relink,
        }  # fmt: skip
        for arm in record.arms:
            found[f"artifact of {arm.name}"] = arm.identity.get("engine_artifact")
            found[f"environment of {arm.name}"] = arm.environment
            found |= {f"{name} of {arm.name}": value for name, value in arm.options.items()}
        return found

    def summary(self) -> tuple[str, str]:
        record = self.record
        arms = ", ".join(f"{arm.name} = {arm.value}" for arm in record.arms if not arm.twin_of)
        what = f"{record.workload}, {record.engine}, {record.factor.name}: {arms}"
        if (self.directory / VERDICT).exists():
            return what, read_json(self.directory / VERDICT, Verdicts, "the verdicts of a comparison").sentence
        return what, f"no verdict yet: {len(record.whole_sessions())} of at most {record.plan.sessions} sessions"

    @property
    def counted(self) -> Path:
        """Where a count is kept that is made beside it."""
        return self.directory / "counted"

    def count(self) -> CountRecord | None:
        """What was counted beside it; None where no operation was, to its end."""
        return CountRun.open(self.counted).record if CountRun.is_in(self.counted) else None

    def run_with(self, file: str, session: Session, arm: str) -> Path | None:
        """The run directory of the arm's process in the session that has the file; None where none has."""
        found = [self.directory / process.directory for process in session.processes if process.arm == arm]
        return next((path for path in found if (path / file).exists()), None)

    def profiles(self, arm: str) -> list[Path]:
        """The run directories of the arm that hold a folded profile, of the whole sessions, the oldest first."""
        return [
            self.directory / process.directory
            for session in self.record.whole_sessions()
            for process in session.processes
            if process.arm == arm and (self.directory / process.directory / Files.PROFILE).exists()
        ]
