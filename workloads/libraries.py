"""An engine's code as a library of its own, which our client opens: a release, a jar with one, or a file of the user's.

WHAT is `10.4.2`, a range of releases `7.10.2..10.10.1`, the path of a .so or of a .jar, or `NAME=WHAT`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ground.errors import RefusedError, UsageError
from ground.settings import Setting
from ground.text.file_name import file_name
from ground.text.progress import Reporter
from workloads.elf import why_not_loadable
from workloads.release_cache import ReleaseCache
from workloads.releases import Releases

_NAMED = re.compile(r"([\w.+-]{1,40})=(.+)", re.DOTALL)
# librocksdb.so, librocksdb.so.10.4, an archive of Java.
_FILE = re.compile(r"\.jar$|\.so(\.[\d.]+)?$")
JAR = ".jar"


@dataclass(frozen=True)
class AskedLibrary:
    """name: of the arm; what: a release or a path"""

    name: str
    what: str


@dataclass(frozen=True)
class Library:
    """facts: where it is from, and what is bundled in it, for the record of a run"""

    path: Path
    facts: Mapping[str, str] = field(default_factory=dict)


def names_a_library(releases: Releases, text: str) -> bool:
    """True for a release and for the name of a library or a jar, be it there or not."""
    return _FILE.search(text) is not None or releases.versions_in(text) is not None


def asked_libraries(releases: Releases, texts: Sequence[str]) -> list[AskedLibrary]:
    """What is asked for, in order; a text may hold several, parted by commas. UsageError for what is none.

    UsageError also where two of them have the same name: their figures could not be distinguished.
    """
    found = []
    for text in texts:
        whole = _NAMED.fullmatch(text)
        is_path = Path(text).exists() or (whole is not None and Path(whole[2]).exists())
        for one in [text] if is_path else text.split(","):
            match = None if Path(one).exists() else _NAMED.fullmatch(one)
            name, what = (match[1], match[2]) if match else ("", one)
            versions = releases.versions_in(what)
            if versions is None and not _FILE.search(what):
                raise RefusedError(
                    f"{Setting.ROCKSDB.to(one)} is no release and no path of a library or a jar",
                    mend=f"{Setting.ROCKSDB.to('10.4.2')}, a {releases.library}, a .jar, or NAME= before one of them   "
                    f"({releases.listing})",
                )
            if match and versions is not None and len(versions) > 1:
                raise RefusedError(
                    f"{Setting.ROCKSDB.to(one)}: {len(versions)} releases cannot have one name",
                    mend=Setting.ROCKSDB.to(what),
                )
            found += [AskedLibrary(name or _label(each), each) for each in versions or [what]]
    names = [one.name for one in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(
            f"{Setting.ROCKSDB.to(','.join(texts))}: two are called {twice}",
            means="their figures would have one name; nothing was started",
            mend=Setting.ROCKSDB.to("old=<what>,new=<what>"),
        )
    return found


def _label(what: str) -> str:
    """A release is called by its version, a file by its name."""
    if not _FILE.search(what):
        return what
    return file_name(Path(what).name.removesuffix(JAR))[:40]


def found_library(releases: Releases, what: str, reporter: Reporter) -> Library:
    """The file to open; a release that is not here yet is fetched. UsageError, HostError where there is none."""
    cache = ReleaseCache(releases)
    if releases.versions_in(what) is not None:
        return Library(cache.library(what, reporter), cache.facts(what))
    if what.endswith(JAR):
        name = cache.from_jar(Path(what), reporter)
        return Library(cache.library(name, reporter), cache.facts(name))
    path = Path(what).absolute()
    why = why_not_loadable(path)
    if why:
        raise RefusedError(
            f"{Setting.ROCKSDB.to(what)} {why}",
            mend=f"{Setting.ROCKSDB.to(f'<the path of a {releases.library}, or a release>')}   ({releases.listing})",
        )
    return Library(path)
