"""Unpacks an archive that somebody else may have made: nothing of it lands outside of its directory."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path


def unpack_into(archive: tarfile.TarFile, directory: Path) -> None:
    """All of it below `directory`, as this user's own. tarfile.TarError where a member leads out of it."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(directory, filter="data")
        return
    # Python has filters since 3.11.4 and 3.10.12; Debian 12 has 3.11.2.
    members = [_checked(member, directory) for member in archive.getmembers()]
    archive.extractall(directory, members)


def _checked(member: tarfile.TarInfo, directory: Path) -> tarfile.TarInfo:
    """A plain file, a directory, or a link to one that lies within."""
    if not (member.isfile() or member.isdir() or member.issym() or member.islnk()):
        raise tarfile.ExtractError(f"{member.name} is neither a file nor a directory")
    leads_to = [directory / member.name]
    if member.issym():
        leads_to.append((directory / member.name).parent / member.linkname)
    elif member.islnk():
        leads_to.append(directory / member.linkname)
    if not all(path.resolve().is_relative_to(directory.resolve()) for path in leads_to):
        raise tarfile.ExtractError(f"{member.name} leads out of the archive")
    member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
    member.mode &= 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return member
