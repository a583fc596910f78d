"""A run and the symbols that its recordings need as one file, to be analysed on another machine."""

from __future__ import annotations

import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from folding.symbol_cache import CACHE, KeptFile, keep_symbols
from ground.results.files import Files
from ground.results.profile import mapped_objects
from ground.results.run import Run

ENDING = ".tar.xz"


@dataclass(frozen=True)
class Packed:
    """kept: whose symbols are in it"""

    run: Run
    out: Path
    kept: list[KeptFile]

    @property
    def words(self) -> str:
        """What it holds, and the command for the other machine."""
        lines = [f"packed:  {self.out}   ({self.out.stat().st_size / 2**20:.1f} MiB)"]
        redacted = ", whose names are redacted" if _is_redacted(self.run) else ""
        lines.append(f"holds:   the run directory {self.run.directory.name}{redacted}")
        if (self.run.path(Files.MAPPED) / CACHE).is_dir():
            lines.append("         the symbols that it was packed with before, and none of this machine")
        lines += [f"         {one.held} of {one.path}" for one in self.kept]
        return "\n".join([*lines, f"there:   ioflame analyse {self.out.name}"])


def pack(found: Run, out: Path) -> Packed:
    """out: is written over"""
    with tempfile.TemporaryDirectory(prefix="ioflame-pack-", dir=out.resolve().parent) as scratch:
        symbols, part = Path(scratch) / Files.MAPPED, Path(scratch) / out.name
        # What is redacted holds no recording that would need them, and they hold names.
        objects = None if _is_redacted(found) else mapped_objects(found.directory)
        kept = keep_symbols(objects, found.path(Files.MAPPED), symbols) if objects is not None else []
        with tarfile.open(part, "w:xz") as archive:
            archive.add(found.directory, found.directory.name)
            if symbols.is_dir():
                archive.add(symbols, f"{found.directory.name}/{Files.MAPPED}")
        part.replace(out)
    return Packed(found, out, kept)


def _is_redacted(run: Run) -> bool:
    return run.record.target is not None and run.record.target.redacted
