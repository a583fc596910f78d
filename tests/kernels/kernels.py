"""Debian's kernels: which there are, their images, and the BTF in these."""

from __future__ import annotations

import io
import lzma
import re
import struct
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile

from ground.errors import HostError, UsageError
from ground.system.atomic_files import write_whole
from tests.kernels.debian import Suite, take

NEWEST = "newest"
# From 6.19 on the image is in a package of its own beside what depends on it.
_PACKAGES = r"linux-(image|binary)-[0-9][^_]*-cloud-amd64"
# In the header of a kernel's image: sectors before the code (less one), and where in the code the compressed kernel is.
_SECTORS, _PAYLOAD = 0x1F1, 0x248
# What begins so is unpacked by this command.
_COMPRESSED = {b"\x28\xb5\x2f\xfd": "zstd", b"\x02\x21\x4c\x18": "lz4"}


@dataclass(frozen=True)
class Kernel:
    """version: `6.1`; build: of the package, `6.1.192-2`"""

    version: str
    build: str
    package: str
    suite: Suite

    @property
    def order(self) -> tuple[int, ...]:
        """By upstream's numbers, then Debian's: enough among builds of one version."""
        return tuple(int(number) for number in re.findall(r"\d+", self.build))


def kernels(suites: Iterable[Suite]) -> dict[str, Kernel]:
    """The newest build of each version in any of the suites, the oldest version first."""
    found = [
        Kernel(".".join(build.split(".")[:2]), build, package, suite)
        for suite in suites
        for package, build in suite.versions(_PACKAGES).items()
    ]
    return {one.version: one for one in sorted(found, key=lambda one: (one.order, "binary" in one.package))}


def chosen(names: Iterable[str], known: dict[str, Kernel]) -> list[Kernel]:
    """Of versions such as `6.1`, and `newest`. UsageError for one that no suite has."""
    wanted = [list(known)[-1] if name == NEWEST else name for name in names]
    for name in wanted:
        if name not in known:
            raise UsageError(f"kernel {name}: no suite has it", mend=f"one of {', '.join(known)}, {NEWEST}")
    return [known[name] for name in dict.fromkeys(wanted)]


def image_of(kernel: Kernel, folder: Path) -> Path:
    """The kernel's image in a folder of its build, fetched where it is not there yet."""
    place = folder / kernel.build
    if not list(place.rglob("vmlinuz*")):
        take(kernel.suite.fetched(kernel.package), place, "--wildcards", "*/vmlinuz*")
    (found,) = place.rglob("vmlinuz*")
    return found


def btf_of(kernel: Kernel, image: Path, folder: Path) -> Path:
    """VERSION.btf: the whole BTF of the kernel, taken from its image."""
    place = folder / f"{kernel.version}.btf"
    if not place.exists() or place.stat().st_mtime < image.stat().st_mtime:
        section = ELFFile(io.BytesIO(_unpacked(image))).get_section_by_name(".BTF")
        if section is None:
            raise HostError(f"{image}: a kernel without BTF", means="CO-RE programs cannot be fitted to it")
        folder.mkdir(exist_ok=True)
        write_whole(place, section.data())
    return place


def _unpacked(image: Path) -> bytes:
    data = image.read_bytes()
    offset, size = struct.unpack_from("<II", data, _PAYLOAD)
    begin = (data[_SECTORS] + 1) * 512 + offset
    packed = data[begin : begin + size]
    if packed.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMADecompressor().decompress(packed)
    tool = _COMPRESSED.get(packed[:4])
    if tool is None:
        raise HostError(f"{image}: compressed in a way that is not known here: it begins with {packed[:6].hex()}")
    try:
        # It complains of the size that follows the compressed data, with exit code 1.
        done = subprocess.run([tool, "-dcq"], input=packed, capture_output=True, check=False)
    except FileNotFoundError:
        raise HostError(f"{tool} is not installed", mend=f"apt-get install {tool}") from None
    if not done.stdout.startswith(b"\x7fELF"):
        raise HostError(f"{image}: {tool} did not unpack it: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
