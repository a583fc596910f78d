"""A release's jar: by Maven where it is installed, which knows of mirrors, else without it; and the library in it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

from ground.errors import HostError, UsageError
from ground.settings import Setting
from ground.system.atomic_files import write_whole
from ground.system.http_answer import http_answer
from ground.system.process import Children
from ground.text.progress import Arrived
from workloads.releases import Jar, Releases

_SECONDS, _LOOK_SECONDS = 1800.0, 0.5
# Maven's words for a version that its repositories do not have.
_ABSENT = re.compile(r"Could not find artifact|was not found in")
# What it prints of a download again and again; in MB, for its own parts are smaller.
_PROGRESS = re.compile(rb"Progress \(\d+\): ([\d.]+)/([\d.]+) MB")
_MOST_BYTES = 256 << 20
_NO_SUCH_FILE = "HTTP Error 404"
_LIBRARY = re.compile(r"\.so$")


def fetched(releases: Releases, artifact: str, into: Path, arrived: Arrived) -> Path | None:
    """A jar of a release, fetched into a directory that holds none; None where there is none. Nothing else is fetched.

    HostError where it cannot be had.
    """
    return (_by_maven if shutil.which("mvn") else _downloaded)(releases, artifact, into, arrived)


def _downloaded(releases: Releases, artifact: str, into: Path, arrived: Arrived) -> Path | None:
    address = releases.address_of(artifact)
    jar = into / address.rpartition("/")[2]
    try:
        write_whole(jar, http_answer(address, _SECONDS, _MOST_BYTES, arrived=arrived))
    except OSError as error:
        if str(error).startswith(_NO_SUCH_FILE):
            return None
        raise _not_fetched(releases, artifact, str(error)[:400]) from None
    return jar


def _by_maven(releases: Releases, artifact: str, into: Path, arrived: Arrived) -> Path | None:
    # A directory without a pom.xml of anybody. -U: Maven remembers what it once did not find.
    # Without the file that a JVM keeps in /tmp for those who watch it. Quiet or by batch it prints no progress.
    options = f"MAVEN_OPTS={os.environ.get('MAVEN_OPTS', '')} -XX:-UsePerfData"
    argv = ["env", "-C", str(into), options, "mvn", "-C", "dependency:copy", f"-Dartifact={artifact}"]
    argv += ["-Dstyle.color=never", "-U", f"-DoutputDirectory={into}"]
    printed, late = into / "mvn.out", time.monotonic() + _SECONDS
    with Children() as children:
        child = children.start("mvn", argv, stdout=printed)
        runs = True
        while runs and time.monotonic() < late:
            runs = child.wait(_LOOK_SECONDS) is None
            if found := _PROGRESS.findall(printed.read_bytes()):
                arrived(float(found[-1][0]), float(found[-1][1]))
    jars = list(into.glob("*.jar"))
    if child.returncode == 0 and len(jars) == 1:
        return jars[0]
    words = printed.read_text(encoding="utf-8", errors="replace")
    if _ABSENT.search(words):
        return None
    # The last words of a chain of causes say the most: `Unknown host`, `Connection refused`.
    said = [line.partition("[ERROR] ")[2] for line in words.splitlines() if "[ERROR] " in line]
    why = next((line for line in said if ": " in line and line[:1] == " "), said[0] if said else words.strip()[-300:])
    why = why.strip()[:400] or "it printed nothing"
    raise _not_fetched(releases, artifact, f"mvn ended with exit code {child.returncode}: {why}")


def absent(releases: Releases, jars: Sequence[Jar]) -> UsageError:
    """For a version of which there is none of these."""
    return UsageError(
        f"there is no {' and no '.join(jar.artifact for jar in jars)} in the repository",
        means="nothing was fetched or kept; not every version of the engine is published as such a jar",
        mend=f"{releases.listing}   (releases that are known to be there)",
    )


def _not_fetched(releases: Releases, artifact: str, why: str) -> HostError:
    address = releases.address_of(artifact)
    jar = address.rpartition("/")[2]
    return HostError(
        f"{artifact} was not fetched: {why}",
        means="nothing was kept, nothing was started; what is in the cache needs no network",
        mend=f"HTTPS_PROXY=<URL of a proxy>; or on a host with a network: {shlex.join(['curl', '-fO', address])}   "
        f"and then here: {Setting.ROCKSDB.to(shlex.quote(jar))}",
    )


def unpack(releases: Releases, jar: Path, to: Path) -> None:
    """Writes this machine's library out of a jar; UsageError for a jar that is cut, or that holds none for it."""
    machine = os.uname().machine
    try:
        with zipfile.ZipFile(jar) as packed:
            names = packed.namelist()
            member = releases.members.get(machine)
            if member not in names:
                raise _without_library(releases, jar, machine, names)
            # Its checksum is looked at when the last byte was read.
            with packed.open(member) as source, to.open("xb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise UsageError(
            f"{jar} is no whole jar: {error}",
            means="it is cut short or damaged; it was not kept",
            mend=f"ls -l {shlex.quote(str(jar))}; then fetch it again",
        ) from None


def _without_library(releases: Releases, jar: Path, machine: str, names: list[str]) -> UsageError:
    there = [name for name in names if _LIBRARY.search(name)]
    known = {member: of for of, member in releases.members.items()}
    if not there:
        classifier = releases.artifact.rpartition(":")[2]
        return UsageError(
            f"{jar} holds no library",
            means="it is the jar without the library; it was not kept",
            mend=f"the jar whose name ends with -{classifier}.jar",
        )
    return UsageError(
        f"{jar} holds no library for {machine}, only {', '.join(known.get(name, name) for name in there)}",
        means="it was not kept",
        mend=f"a {releases.library} that is built for {machine}: {Setting.ROCKSDB.to('<its path>')}",
    )
