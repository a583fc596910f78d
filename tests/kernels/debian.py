"""Packages of other Debian suites: fetched by apt from the mirror that this host uses, and unpacked, not installed."""

from __future__ import annotations

import functools
import re
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from ground.errors import HostError

_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
# Suites of releases have fixes elsewhere; what is not released has none.
_WITH_FIXES = ("bullseye", "bookworm", "trixie")
_DAY = 86_400.0


@functools.cache
def mirrors() -> tuple[str, str, str]:
    """Where this host's apt fetches Debian from, and its fixes; and the suite that it runs. HostError on others."""
    argv = ["apt-get", "indextargets", "--format", "$(LABEL)\t$(REPO_URI)\t$(CODENAME)", "Created-By: Packages"]
    lines = [line.split("\t") for line in output(argv).splitlines()]
    found: dict[str, tuple[str, str]] = {}
    for label, address, suite in lines:
        found.setdefault(label, (address, suite))
    if "Debian" not in found:
        raise HostError(
            "apt of this host knows no source of Debian",
            means="kernels are fetched from where its own packages come from",
            mend="a host with Debian, or a container of it",
        )
    address, suite = found["Debian"]
    return address, found.get("Debian-Security", (f"{address.rstrip('/')}-security", ""))[0], suite


def output(argv: Sequence[str], where: Path | None = None) -> str:
    """What a helper of the host prints; HostError where it fails, or is not there."""
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=True, cwd=where).stdout
    except FileNotFoundError:
        raise HostError(f"{argv[0]} is not installed", mend="a host with Debian, or a container of it") from None
    except subprocess.CalledProcessError as error:
        last = error.stderr.strip().splitlines()[-1:] or [f"exit code {error.returncode}"]
        raise HostError(f"{' '.join([argv[0], *argv[-2:]])}: {last[0]}") from None


class Suite:
    """One suite's packages, with lists and archives in `folder`; lists are read anew once a day."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self._folder = name, folder
        address, fixes, _ = mirrors()
        for part in ("lists", "archives"):
            (folder / part / "partial").mkdir(parents=True, exist_ok=True)
        (folder / "status").touch()
        sources = [f"deb [signed-by={_KEYS}] {address} {name} main"]
        if name in _WITH_FIXES:
            sources.append(f"deb [signed-by={_KEYS}] {fixes} {name}-security main")
        (folder / "sources.list").write_text("\n".join(sources) + "\n", encoding="ascii")
        read = folder / "read"
        if not read.exists() or time.time() - read.stat().st_mtime > _DAY:
            self._apt("apt-get", "update", "-q")
            read.touch()

    def _apt(self, *words: str, where: Path | None = None) -> str:
        own = {
            "Dir::Etc::SourceList": self._folder / "sources.list",
            "Dir::Etc::SourceParts": "-",
            "Dir::State::Lists": self._folder / "lists",
            # Nothing is installed there: all that a package needs is fetched with it.
            "Dir::State::status": self._folder / "status",
            "Dir::Cache": self._folder,
            "Dir::Cache::archives": where or self._folder / "archives",
            # A mirror may be older than its list says.
            "Acquire::Check-Valid-Until": "false",
            "Acquire::AllowReleaseInfoChange": "true",
            "APT::Sandbox::User": "root",
            "Debug::NoLocking": "1",
        }
        options = [word for name, value in own.items() for word in ("-o", f"{name}={value}")]
        return output([words[0], *options, *words[1:]], where)

    def versions(self, pattern: str) -> dict[str, str]:
        """The newest version of each package whose name matches."""
        names = [name for name in self._apt("apt-cache", "pkgnames").split() if re.fullmatch(pattern, name)]
        if not names:
            return {}
        told = self._apt("apt-cache", "show", "--no-all-versions", *names)
        return dict(re.findall(r"^Package: (\S+)\n(?:.+\n)*?Version: (\S+)$", told, re.MULTILINE))

    def fetched(self, package: str) -> Path:
        """One package without what it needs, as a file."""
        place = self._folder / "alone" / package
        if not list(place.glob("*.deb")):
            place.mkdir(parents=True, exist_ok=True)
            self._apt("apt-get", "download", "-q", package, where=place)
        (found,) = place.glob("*.deb")
        return found

    def fetched_with_needs(self, packages: Iterable[str], place: Path) -> list[Path]:
        """Packages and all that they need, as files in `place`."""
        (place / "partial").mkdir(parents=True, exist_ok=True)
        words = ("install", "--download-only", "--no-install-recommends", "-y", "-q")
        self._apt("apt-get", *words, *packages, where=place)
        return sorted(place.glob("*.deb"))


def unpack(debs: Iterable[Path], root: Path) -> None:
    """Into a root whose /bin, /sbin and /lib lie in /usr, without the packages' scripts."""
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        if not (root / name).is_symlink():
            (root / name).symlink_to(f"usr/{name}")
    for deb in debs:
        take(deb, root, "--keep-directory-symlink")


def take(deb: Path, folder: Path, *words: str) -> None:
    """What a package holds, or of it what tar is told by `words`."""
    folder.mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as reader:
        subprocess.run(["tar", "-x", "-C", folder, *words], stdin=reader.stdout, check=True)
    if reader.returncode:
        raise HostError(f"{deb}: dpkg-deb cannot read it", mend=f"rm {deb}   (it is fetched again)")
