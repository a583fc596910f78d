"""The releases of an engine that can be had without building them, as its `releases.toml` lists them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import msgspec

from ground.errors import RefusedError
from ground.settings import Setting
from ground.text.toml import tomllib

_VERSION = re.compile(r"\d+(?:\.\d+)+")
_RANGE = re.compile(r"(\d+(?:\.\d+)*)\.\.(\d+(?:\.\d+)*)")


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """sha256: of the jar; megabytes: of the same; compiler: by architecture; bundled: libraries within, by version

    whole: there is only the jar for all platforms
    """

    version: str
    sha256: str
    megabytes: int
    whole: bool = False
    compiler: dict[str, str]
    bundled: str = ""


class Jar(NamedTuple):
    """One that a release may be had as. artifact: Maven's; size: of it, in words"""

    artifact: str
    size: str


class Releases(msgspec.Struct, frozen=True, kw_only=True):
    """name: of the engine, and so of the command; library: the file in the cache

    repository: of Maven's form, that has the jars
    artifact: Maven's, of the jar for Linux; whole_artifact: of the one for all platforms
    members:  by architecture, the file in the jar
    tree:     flags of the client with which every release reads what any other wrote
    release:  the oldest first
    """

    name: str
    repository: str
    artifact: str
    whole_artifact: str
    library: str
    members: dict[str, str]
    tree: dict[str, int | str]
    release: list[Release]

    def named(self, version: str) -> Release | None:
        """None for one that is not listed."""
        return next((one for one in self.release if one.version == version), None)

    def with_sha256(self, digest: str) -> Release | None:
        """The release whose jar this is; None for none that is listed."""
        return next((one for one in self.release if one.sha256 == digest), None)

    def jars_of(self, version: str) -> list[Jar]:
        """The jar of a listed release; of another the two that it may have, the smaller first."""
        listed = self.named(version)
        forms = [(self.artifact, False, ""), (self.whole_artifact, True, " for all platforms")]
        found = []
        for artifact, whole, platforms in forms:
            if listed is None:
                largest = max((one.megabytes for one in self.release if one.whole == whole), default=0)
                found.append(Jar(artifact.format(version=version), f"about {largest} MB{platforms}"))
            elif listed.whole == whole:
                found.append(Jar(artifact.format(version=version), f"{listed.megabytes} MB{platforms}"))
        return found

    def address_of(self, artifact: str) -> str:
        """Of a jar, where Maven puts it."""
        group, name, version, packing, *classifier = artifact.split(":")
        place = "/".join((self.repository, *group.split("."), name, version))
        return f"{place}/{'-'.join((name, version, *classifier))}.{packing}"

    def versions_in(self, text: str) -> list[str] | None:
        """`10.4.2`, or of `7.10.2..10.10.1` the last listed patch of each minor version; None for other text."""
        if _VERSION.fullmatch(text):
            return [text]
        match = _RANGE.fullmatch(text)
        if match is None:
            return None
        low, high = (version_number(end) for end in match.groups())
        last = {}
        for one in self.release:
            number = version_number(one.version)
            # `10.4` as an end includes every 10.4.x; 10.10.1, which is a release, no 10.10.1.1.
            if low <= number and (number if self.named(match[2]) else number[: len(high)]) <= high:
                last[number[:2]] = one.version
        if len(last) < 2:
            raise RefusedError(
                f"{Setting.ROCKSDB.to(text)}: {len(last)} listed release{'s' * (len(last) != 1)} in that range",
                mend=self.listing,
            )
        return list(last.values())

    @property
    def listing(self) -> str:
        """The command that prints them."""
        return f"ioflame {self.name} list"


def version_number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def older(version: str, than: str) -> bool:
    """True where a version comes before another, number by number."""
    return version_number(version) < version_number(than)


def read_releases(path: Path) -> Releases | None:
    """None where the engine has no such list."""
    if not path.exists():
        return None
    found = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Releases)
    return msgspec.structs.replace(found, release=sorted(found.release, key=lambda one: version_number(one.version)))
