"""A database on disk: loaded once, described beside its files, locked while in use, refused when it is another one.

`ioflame-db.json` in the database's directory says what it was loaded with and whether the load ended. A load that was
killed leaves `"state": "loading"` and is done again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shlex
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from ground.errors import HostError, MeasurementError, UsageError
from ground.results.record import SeedRange
from ground.settings import Setting
from ground.system.atomic_files import write_whole
from ground.system.process import Child, Children
from ground.text.progress import Reporter
from ground.text.units import format_bytes, format_count
from workloads.build import EngineBuild
from workloads.engine import Engine, Tree
from workloads.scales import DatabaseShape, Sizing
from workloads.seeds import SeedLedger
from workloads.steps import StepParameters

MANIFEST = "ioflame-db.json"
_LOCK = "ioflame.lock"
_OURS = frozenset({MANIFEST, _LOCK, SeedLedger.NAME})
# Half of one of them, left by an ioflame that was killed while it wrote.
_PARTIAL = re.compile(r"ioflame-(?:db|seeds)(?:\.json\.\d+)?\.part")
# A client's complaints; some of them end with exit code 0. A counter's name is none (`engine.error.handler.count`).
_COMPLAINT = re.compile(r"(?<!\.)\b(?:error|failed)\b(?!\.\w)", re.IGNORECASE)
# A load writes at least this many bytes a second on any disk worth measuring; below it we give up.
_SLOWEST_LOAD = 5 << 20
# Between two looks at how much of a load is there.
_LOOK_SECONDS = 2.0


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Holds the database's lock file; UsageError with the holder's pid when another ioflame has it."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        # It is cut to nothing below: a link that somebody put there must not lead to another file.
        handle = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise UsageError(
            f"{Setting.DB_DIR.to(directory)} cannot be written to: {error.strerror}",
            means="the database and the ledger of seeds are kept there; nothing was started",
            mend=Setting.DB_DIR.to("<a directory you own>"),
        ) from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(handle, 32).decode("ascii", "replace").strip() or "unknown"
            raise UsageError(
                f"{Setting.DB_DIR.to(directory)} is in use by the ioflame with pid {holder}",
                means="two runs on one database would measure each other",
                mend=f"wait for it, or use another {Setting.DB_DIR}",
            ) from None
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(handle)


def is_loaded(directory: Path) -> bool:
    """True when `directory` holds a database whose load ended."""
    return _manifest(directory).get("state") == "loaded"


def load_seconds(shape: DatabaseShape) -> float:
    """That a load should take, on a disk that is not the slowest."""
    return shape.disk_bytes / (150 << 20)


def apply_seconds(shape: DatabaseShape) -> float:
    """That a step should take which leaves another tree."""
    return 12 + shape.disk_bytes / (100 << 20)


# To look at the tree, and to wait for what a load has left to compact.
TREE_SECONDS, SETTLE_SECONDS = 1.0, 6.0


@dataclass(frozen=True)
class _Stage:
    """What the user reads while a step runs, the seconds it should take, and those after which it is given up.

    loads: bytes that its files will have at least
    """

    what: str
    expected: float
    bound: float
    loads: int = 0


def _manifest(directory: Path) -> dict[str, object]:
    try:
        data = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _history(manifest: dict[str, object]) -> list[str]:
    steps = manifest.get("history")
    return [str(step) for step in steps] if isinstance(steps, list) else []


class Database:
    """The database in `directory`; the caller holds its lock.

    shape: what it was, or will be, loaded with
    seeds: the ranges taken from the ledger here, for the run's record
    """

    def __init__(
        self,
        engine: Engine,
        build: EngineBuild,
        directory: Path,
        sizing: Sizing,
        flags: Mapping[str, object] | None = None,
    ) -> None:
        """flags: of the client, over those of a step"""
        self._engine = engine
        self._build = build
        self.directory = directory
        self.shape = sizing.shape
        self._sizing = sizing
        self._flags = dict(flags or {})
        self.ledger = SeedLedger(directory)
        self.seeds: list[SeedRange] = []

    def check(self) -> bool:
        """True when the database is there and is the one asked for; False when it has to be loaded.

        UsageError when the directory holds something else, or a database of other settings, whatever became of that:
        nothing of it is touched.
        """
        foreign = [e.name for e in os.scandir(self.directory) if e.name not in _OURS and not _PARTIAL.fullmatch(e.name)]
        manifest = _manifest(self.directory)
        if not manifest:
            if foreign:
                some = ", ".join(sorted(foreign)[:3])
                raise UsageError(
                    f"{Setting.DB_DIR.to(self.directory)} holds files that ioflame did not make ({some}, ...)",
                    means="a database of unknown keys and settings cannot be measured, and is not overwritten",
                    mend=Setting.DB_DIR.to("<an empty directory>"),
                )
            return False
        state = manifest.get("state")
        self._refuse_others(manifest, state)
        return state == "loaded"

    def _refuse_others(self, manifest: dict[str, object], state: object) -> None:
        asked: dict[str, object] = {"engine": self._engine.name, **asdict(self.shape)}
        # A manifest of an older ioflame has no flags of the tree: it was loaded with those of the engine's file.
        stated: dict[str, object] = {"engine": manifest.get("engine"), "tree": {}}
        shape = manifest.get("shape")
        stated |= shape if isinstance(shape, dict) else {}
        differences = [f"{n}: {stated.get(n)} there, {v} asked" for n, v in asked.items() if stated.get(n) != v]
        if state == "loaded":
            differences += self._differing_options()
        if not differences:
            return
        means = "its figures would be those of another workload"
        if state != "loaded":
            means = (
                f"a step on it was interrupted (state: {state}): a run of its own settings loads it anew, but one of "
                "others does not wipe it unless told to"
            )
        keys = stated.get("num_keys")
        raise UsageError(
            f"the database in {Setting.DB_DIR.to(self.directory)} is not the one asked for: {'; '.join(differences)}",
            means=means,
            mend=(f"{Setting.NUM_KEYS.to(keys)}, or " if isinstance(keys, int) else "")
            + f"{Setting.DB_DIR.to('<an empty directory>')}, or, to load it anew with what is asked: "
            f"rm -r {shlex.quote(str(self.directory))}   (then the same command)",
        )

    def _differing_options(self) -> Iterator[str]:
        """What the engine's own files state otherwise: somebody may have opened the database since."""
        found = self._engine.stored_settings(self.directory)
        for name, expected in self._engine.expected_settings(self.shape).items():
            if found.get(name) not in (expected, "not stated"):
                yield f"{name}: {found.get(name, 'not stated')} in its own files, {expected} asked"

    def load(self, children: Children, reporter: Reporter, log: Path, step: str = "load") -> str:
        """Loads the database from nothing; what the client printed. step: one that makes it, which may leave keys out

        HostError when the disk fills, MeasurementError when the client fails.
        """
        manifest = self._new_manifest("loading")
        # First: what is killed from here on is known as half a database.
        self._write_manifest(manifest)
        self._wipe()
        size = self.shape.disk_bytes
        data = format_bytes(self.shape.data_bytes)
        what = f"load {format_count(self.shape.num_keys)} keys ({data}) into {self.directory}"
        stage = _Stage(what, load_seconds(self.shape), size / _SLOWEST_LOAD, self.shape.data_bytes)
        text = self._step(step, stage, children, reporter, log)
        stored = sum(level.mib for level in self._engine.parse_tree(text).levels) << 20
        if step == "load" and stored < self.shape.data_bytes * (0.9 if self.shape.compression == "none" else 0.4):
            raise MeasurementError(
                f"the load left {format_bytes(stored)} of {format_bytes(self.shape.data_bytes)} in the database",
                means="keys are missing; it is not used",
                mend=f"read {shlex.quote(str(log))}",
            )
        self._write_manifest({**manifest, "state": "loaded", "history": [step]})
        return text

    def _new_manifest(self, state: str) -> dict[str, object]:
        return {
            "schema": 1,
            "state": state,
            "engine": self._engine.name,
            "engine_version": self._build.version,
            "shape": asdict(self.shape),
        }

    @property
    def history(self) -> list[str]:
        """The steps that made the tree what it is, the load first; empty when one of them did not end."""
        manifest = _manifest(self.directory)
        return _history(manifest) if manifest.get("state") == "loaded" else []

    def apply(self, step: str, threads: int, children: Children, reporter: Reporter, log: Path) -> str:
        """Runs a step that leaves another tree, and notes it in the history; what the client printed.

        A step that is killed leaves a database that has to be loaded again: `history` is empty then.
        """
        manifest = _manifest(self.directory)
        changes = self._engine.steps()[step].changes_tree
        if changes:
            manifest.pop("settled", None)
            self._write_manifest({**manifest, "state": f"within {step}"})
        size = self.shape.disk_bytes
        stage = _Stage(step, apply_seconds(self.shape), size / _SLOWEST_LOAD)
        text = self._step(step, stage, children, reporter, log, threads)
        if changes:
            settled = {"settled": True} if self._engine.steps()[step].settles else {}
            self._write_manifest({**manifest, "history": [*_history(manifest), step], **settled})
        return text

    def tree(self, children: Children, reporter: Reporter, log: Path) -> Tree:
        """The current tree; nothing is compacted."""
        stage = _Stage("look at the LSM tree", TREE_SECONDS, 300)
        return self._engine.parse_tree(self._step("levelstats", stage, children, reporter, log))

    def settle(self, children: Children, reporter: Reporter, log: Path) -> Tree:
        """Empties memtable and L0, waits until no compaction is pending; the tree after that.

        Once is enough until a step changes the tree: steps that only read do not change it, which each run proves.
        """
        manifest = _manifest(self.directory)
        if manifest.get("settled") is True:
            return self.tree(children, reporter, log)
        stage = _Stage("empty L0 and wait until no compaction is pending", SETTLE_SECONDS, 900)
        text = self._step("settle", stage, children, reporter, log)
        self._write_manifest({**manifest, "settled": True})
        return self._engine.parse_tree(text)

    def begin(self, workload: str) -> None:
        """Notes that a workload is about to change the tree, or to make it anew."""
        step = self._engine.step(workload)
        if step.creates:
            self._write_manifest(self._new_manifest(f"within {workload}"))
            self._wipe()
        elif step.changing:
            manifest = _manifest(self.directory)
            manifest.pop("settled", None)
            self._write_manifest({**manifest, "history": [*_history(manifest), workload]})

    def remove(self) -> None:
        """Removes its files; the ledger of seeds stays."""
        self._wipe()
        (self.directory / MANIFEST).unlink(missing_ok=True)

    def take_seeds(self, step: str, threads: int) -> SeedRange:
        """Seeds that no thread has used on this database. threads: of queries; a writer beside them has one more"""
        self.seeds.append(self.ledger.take(step, self._seeds_of(step, threads)))
        return self.seeds[-1]

    def _seeds_of(self, step: str, threads: int) -> int:
        return threads + (self._engine.step(step).writers if step in self._engine.workloads() else 0)

    def command(self, step: str, threads: int = 1, seed: int = 0) -> list[str]:
        """The command line of a step that prepares this database. seed: 0 for one that is shown and not run"""
        parameters = StepParameters(self._sizing, self.directory, threads, seed, flags=self._flags)
        return self._engine.command(self._build, step, parameters)

    def _step(
        self, step: str, stage: _Stage, children: Children, reporter: Reporter, log: Path, threads: int = 1
    ) -> str:
        argv = self.command(step, threads, self.take_seeds(step, threads).first)
        with reporter.stage(stage.what, stage.expected, step) as arrived:
            child = children.start(f"{self._engine.about.client} {step}", argv, stdout=log)
            end = time.monotonic() + max(stage.bound, 120)
            while (code := child.wait(_LOOK_SECONDS)) is None and time.monotonic() < end:
                if stage.loads:
                    arrived(min(self._stored_bytes(), stage.loads) >> 20, stage.loads >> 20)
            if code is None:
                child.stop()
        text = log.read_text(encoding="utf-8", errors="replace")
        if code == 0 and not self._complaints(text):
            return text
        self._explain(step, child, text, log)
        return text

    def _stored_bytes(self) -> int:
        """Of its files, which the engine may remove meanwhile."""
        found = 0
        for entry in os.scandir(self.directory):
            with contextlib.suppress(FileNotFoundError):
                found += entry.stat().st_size
        return found

    def _complaints(self, text: str) -> list[str]:
        """Lines in which the client complains; a path that it prints is no complaint, whatever it is called."""
        paths = "|".join(re.escape(str(path)) for path in (self.directory, self._build.path, self._build.code))
        path = re.compile(rf"(?:{paths})(?![\w-])")
        return [line for line in text.splitlines() if _COMPLAINT.search(path.sub("", line))]

    def _explain(self, step: str, child: Child, text: str, log: Path) -> None:
        """Raises what a failed step means."""
        free = os.statvfs(self.directory)
        if "No space left on device" in text or free.f_bavail * free.f_frsize < (16 << 20):
            raise HostError(
                f"the disk of {self.directory} is full: {child.name} ended with {child.describe_end()}",
                means="the database is incomplete; the next run loads it again",
                mend=f"free some disk, use a smaller {Setting.NUM_KEYS}, or {Setting.DB_DIR.to('<a larger disk>')}   "
                f"(df -h {shlex.quote(str(self.directory))})",
            )
        said = (self._complaints(text) or text.strip().splitlines() or ["nothing"])[-1][-400:]
        raise MeasurementError(
            f"{child.name} ended with {child.describe_end()}; its output: {said}",
            means="the database is not usable; the next run loads it again" if step == "load" else "",
            mend=f"read {shlex.quote(str(log))}; to see it again: {shlex.join(child.argv)}",
        )

    def _wipe(self) -> None:
        """Removes the files of an unfinished load: the engine's own kinds of file, in our directory, and no other."""
        for entry in os.scandir(self.directory):
            if entry.is_file(follow_symlinks=False) and self._engine.is_database_file(entry.name):
                Path(entry.path).unlink()

    def _write_manifest(self, manifest: dict[str, object]) -> None:
        write_whole(self.directory / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
