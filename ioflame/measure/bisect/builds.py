"""The commits of a repository, built one at a time in a work tree of our own, or binaries that are there already."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import time
from pathlib import Path

from ground.errors import RefusedError, UsageError
from ground.results.bisect import BisectRun
from ground.system.atomic_files import file_sha256
from ground.system.process import Children, capture, tool_path
from ground.text.progress import Reporter

_GIT_SECONDS = 600.0
_BUILD_SECONDS = 6 * 3600.0
_ASSUMED_BUILD = 300.0
_LINE = re.compile(r"([\w.+-]{1,40})=(.+)")


def _git(repository: Path, *arguments: str) -> str:
    argv = [tool_path("git", "git"), "-C", str(repository), *arguments]
    return capture(argv, timeout=_GIT_SECONDS).require(f"git {arguments[0]}").text.strip()


def commits_between(repository: Path, good: str, bad: str) -> tuple[list[str], list[str]]:
    """Hashes and titles, the good end first, along first parents. UsageError where `good` is no ancestor of `bad`."""
    ends = [_git(repository, "rev-parse", "--verify", f"{name}^{{commit}}") for name in (good, bad)]
    shared = _git(repository, "merge-base", *ends)
    if shared != ends[0]:
        raise UsageError(
            f"{good} is no ancestor of {bad} in {repository}",
            means="there is no line of commits between them",
            mend=f"--good {shlex.quote(shared)}   (their common ancestor, if it is good)",
        )
    listed = _git(repository, "log", "--reverse", "--first-parent", "--format=%H %s", f"{ends[0]}..{ends[1]}")
    lines = [_git(repository, "log", "-1", "--format=%H %s", ends[0]), *listed.splitlines()]
    if len(lines) < 2:
        raise RefusedError(f"{good} and {bad} are one commit", mend="--good <an older commit>")
    hashes, titles = zip(*(line.partition(" ")[::2] for line in lines), strict=True)
    return list(hashes), list(titles)


def listed_arms(path: Path) -> tuple[list[str], list[str]]:
    """Names and binaries, a line each, `NAME=BIN`, the good end first. UsageError for a line that is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise RefusedError(
            f"--arms {path}: {error.strerror if isinstance(error, OSError) else error}",
            mend="--arms <a file with NAME=BIN a line, the good end first>",
        ) from None
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    found = [_LINE.fullmatch(line.strip()) for line in lines]
    for line, match in zip(lines, found, strict=True):
        if match is None or not os.access(match[2], os.X_OK):
            raise RefusedError(
                f"{path}: {line!r} is not NAME=BIN with a program that runs",
                mend="NAME=<the path of a program>, a line each",
            )
    if len(found) < 2:
        raise UsageError(
            f"{path} lists {len(found)} arms",
            means="a search is between two or more; nothing was started",
            mend="NAME=<the path of a program>, a line each, the good end first",
        )
    return [match[1] for match in found if match], [match[2] for match in found if match]


class Builds:
    """Binaries by place. Each is copied into the search's directory, so that a later build does not take it away."""

    def __init__(self, study: BisectRun, reporter: Reporter) -> None:
        self._study, self._reporter = study, reporter
        self._tree = study.directory / "worktree"

    def seconds(self, place: int) -> float:
        """What building it will take: nothing where that is done, else as long as others took."""
        record = self._study.record
        if str(place) in record.binaries:
            return 0.0
        took = list(record.build_seconds.values())
        return sum(took) / len(took) if took else _ASSUMED_BUILD

    def binary(self, place: int) -> Path | None:
        """Built where it is not; None where that failed, which is on record then."""
        record = self._study.record
        if str(place) not in record.binaries and str(place) not in record.skipped:
            why = self._build(place)
            if why:
                record.skipped[str(place)] = why
                self._reporter.warn(f"{record.names[place][:12]} is skipped: {why}")
            self._study.save()
        found = record.binaries.get(str(place))
        return Path(found) if found else None

    def _build(self, place: int) -> str:
        """Why it could not be built; "" where it was."""
        record, directory = self._study.record, self._study.directory
        name = record.names[place]
        if not self._tree.exists():
            _git(Path(record.repository), "worktree", "add", "--detach", "--force", str(self._tree), name)
        # What another build left makes the next one short; `make` knows what of it is old.
        _git(self._tree, "checkout", "--detach", "--force", name)
        log = directory / f"build-{name[:12]}.log"
        begun = time.monotonic()
        with Children() as children, self._reporter.stage(f"build {name[:12]}: {record.titles[place][:50]}"):
            child = children.start(
                f"build of {name[:12]}", ["env", "-C", str(self._tree), "sh", "-c", record.build], stdout=log
            )
            code = child.wait(_BUILD_SECONDS)
        built = self._tree / record.binary
        if code != 0 or not built.is_file():
            left = f"left no {record.binary}" if code == 0 else f"ended with {'no end' if code is None else code}"
            return f"its build {left}   ({log})"
        kept = directory / "bin" / name[:12] / built.name
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(built, kept)
        record.artifacts[str(place)] = file_sha256(kept)
        record.binaries[str(place)] = str(kept)
        record.build_seconds[str(place)] = time.monotonic() - begun
        return ""

    def end(self) -> None:
        """Takes the work tree away, and what git knows of it."""
        if self._tree.exists():
            _git(Path(self._study.record.repository), "worktree", "remove", "--force", str(self._tree))
