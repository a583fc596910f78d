"""Releases that were fetched or unpacked once: $XDG_CACHE_HOME/ioflame/ENGINE/VERSION/ARCHITECTURE.

A directory there holds the library and `release.json`, is made under another name, and is renamed when it is whole.
What is in it asks nobody.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from ground.errors import HostError, RefusedError, UsageError, error_of_system
from ground.settings import Setting
from ground.system.atomic_files import file_sha256, read_json, write_json
from ground.system.scratch import scratch_directory
from ground.text.progress import Reporter
from workloads.artifact import build_facts
from workloads.release_fetch import absent, fetched, unpack
from workloads.releases import Release, Releases, version_number

_RECORD = "release.json"
_PARTIAL = re.compile(r"\.(\d+)\.part")
# So many digits of its SHA-256 name a jar that is no listed release.
_DIGITS = 16


class CachedRelease(msgspec.Struct, kw_only=True):
    """`release.json`: origin is the artifact, or the jar's path; the compiler is what the library itself says."""

    version: str
    architecture: str
    jar_sha256: str
    library_sha256: str
    build_id: str
    compiler: str
    origin: str
    date: str
    schema: int = 1


class ReleaseCache:
    """The releases of one engine that this host has."""

    def __init__(self, releases: Releases) -> None:
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        self.place = Path(cache, "ioflame", releases.name).absolute()
        self._releases = releases
        self._machine = os.uname().machine

    def directory(self, version: str) -> Path:
        return self.place / version / self._machine

    def entries(self) -> Iterator[tuple[str, CachedRelease]]:
        """What is there for this machine, the oldest first, by the name that it is asked for with."""
        found = sorted(self.place.glob(f"*/{self._machine}/{_RECORD}"), key=lambda one: _order(one.parts[-3]))
        for path in found:
            yield path.parts[-3], read_json(path, CachedRelease, "the record of a release")

    def record(self, name: str) -> CachedRelease:
        return read_json(self.directory(name) / _RECORD, CachedRelease, "the record of a release")

    def has(self, name: str) -> bool:
        return (self.directory(name) / _RECORD).exists()

    def library(self, version: str, reporter: Reporter) -> Path:
        """The library of a release, fetched where it is not there yet."""
        if not self.has(version):
            self._fetch(version, reporter)
        return self._whole(version)

    def _fetch(self, version: str, reporter: Reporter) -> None:
        listed, jars = self._releases.named(version), self._releases.jars_of(version)
        with scratch_directory() as scratch:
            for artifact, size in jars:
                with reporter.stage(f"fetch {artifact}, {size}") as arrived:
                    jar = fetched(self._releases, artifact, scratch, arrived)
                if jar is not None:
                    break
            else:
                raise absent(self._releases, jars)
            digest = file_sha256(jar)
            if listed is None:
                reporter.warn(
                    f"{version} is not in the list of releases: its SHA-256 {digest} is compared with nothing"
                )
            elif digest != listed.sha256:
                raise HostError(
                    f"the jar of {version} has SHA-256 {digest}; the release has {listed.sha256}",
                    means="it is not the published file; it was not kept",
                    mend=shlex.join(["rm", "-r", _mavens_copy(artifact)]) + "; " + self._get(version),
                )
            self._keep(version, jar, digest, artifact)

    def from_jar(self, jar: Path, reporter: Reporter) -> str:
        """Unpacks a jar that somebody fetched; the name of it in the cache: its version where it is a listed one's."""
        digest = _readable_sha256(jar)
        listed = self._releases.with_sha256(digest)
        name = listed.version if listed else f"jar-{digest[:_DIGITS]}"
        if not self.has(name):
            with reporter.stage(f"unpack {jar}"):
                self._keep(name, jar, digest, str(jar.absolute()))
        return name

    def _keep(self, name: str, jar: Path, digest: str, origin: str) -> None:
        """Puts a release into the cache, whole or not at all."""
        target = self.directory(name)
        partial = target.with_name(f"{target.name}.{os.getpid()}.part")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            self._remove_left(target.parent)
            partial.mkdir()
            library = partial / self._releases.library
            unpack(self._releases, jar, library)
            facts = build_facts(library)
            write_json(
                partial / _RECORD,
                CachedRelease(
                    version=name, architecture=self._machine, jar_sha256=digest, library_sha256=facts["sha256"],
                    build_id=facts["build_id"], compiler=facts["compiler"], origin=origin,
                    date=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
                ),
            )  # fmt: skip
            with contextlib.suppress(FileExistsError):
                partial.rename(target)
        except OSError as error:
            # Where another ioflame was faster, its directory is as good.
            if not self.has(name):
                raise error_of_system(error, target) from None
        finally:
            shutil.rmtree(partial, ignore_errors=True)
            for folder in (target, target.parent):
                with contextlib.suppress(OSError):
                    folder.rmdir()

    @staticmethod
    def _remove_left(folder: Path) -> None:
        """What an ioflame that was killed had begun."""
        for entry in folder.iterdir():
            match = _PARTIAL.search(entry.name)
            if match and not Path("/proc", match[1]).exists():
                shutil.rmtree(entry, ignore_errors=True)

    def _whole(self, name: str) -> Path:
        """The library, if it is the one that was put there."""
        record, path = self.record(name), self.directory(name) / self._releases.library
        listed = self._releases.named(name)
        again = f"ioflame {self._releases.name} remove {name}; {self._get(_source(record, listed))}"
        if not path.is_file() or file_sha256(path) != record.library_sha256:
            raise HostError(
                f"{path} is not the file that was put there: its SHA-256 differs",
                means="somebody changed or cut it; nothing was started",
                mend=again,
            )
        if listed is not None and record.jar_sha256 != listed.sha256:
            raise HostError(
                f"{path} is from a jar with SHA-256 {record.jar_sha256}; the release has {listed.sha256}",
                means="nothing was started",
                mend=again,
            )
        return path

    def _get(self, what: str) -> str:
        """The command that brings it here again."""
        return f"ioflame {self._releases.name} get {shlex.quote(what)}"

    def facts(self, name: str) -> dict[str, str]:
        """What a run records of it, beside what the library itself says."""
        record, listed = self.record(name), self._releases.named(name)
        bundled = {"engine_bundled": listed.bundled} if listed and listed.bundled else {}
        origin = record.origin if listed is None else self._releases.jars_of(name)[0].artifact
        return {"engine_release": origin, **bundled}

    def remove(self, names: Sequence[str]) -> None:
        """All of them, or none: UsageError where one is not there."""
        for name in names:
            if "/" in name or name in ("", ".", "..") or not (self.place / name).is_dir():
                there = sorted(self.place.glob("*"), key=lambda one: _order(one.name))
                raise UsageError(
                    f"{name} is not in the cache, {self.place}",
                    means="nothing was removed",
                    mend=f"one of: {', '.join(shlex.quote(path.name) for path in there)}"
                    if there
                    else "none is there to remove",
                )
        for name in dict.fromkeys(names):
            shutil.rmtree(self.place / name)


def _order(name: str) -> tuple[bool, tuple[int, ...], str]:
    """Releases by their numbers, then what is called after a jar."""
    return not name[:1].isdigit(), version_number(name) if name[:1].isdigit() else (), name


def _source(record: CachedRelease, listed: Release | None) -> str:
    return record.version if listed else record.origin


def _mavens_copy(artifact: str) -> str:
    group, name, version, *_ = artifact.split(":")
    return f"{Path.home()}/.m2/repository/{group.replace('.', '/')}/{name}/{version}"


def _readable_sha256(jar: Path) -> str:
    try:
        return file_sha256(jar)
    except OSError as error:
        raise RefusedError(
            f"{Setting.ROCKSDB.to(jar)} cannot be read: {error.strerror}",
            mend=f"{Setting.ROCKSDB.to('<the path of a jar, or a release>')}",
        ) from None
