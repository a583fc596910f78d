"""The files of a service that others run: as its base engine knows them, and by its own patterns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ground.results.jobs import Jobs
from ground.results.stored_files import StoredFiles
from workloads.file_kinds import FilesReader, files_below, joined, with_kinds
from workloads.service import Service


@dataclass(frozen=True)
class ServiceFiles:
    """base: the engine whose databases lie within the service's directory; None where it has an engine of its own"""

    service: Service
    base: FilesReader | None

    def stored_files(self, directory: Path) -> StoredFiles:
        """As `Engine.stored_files`."""
        files = self.base.stored_files(directory) if self.base else files_below(directory, {})
        return with_kinds(files, self.service.file_kinds)

    def stored_files_of_window(self, before: StoredFiles, after: StoredFiles) -> StoredFiles:
        """As `Engine.stored_files_of_window`."""
        if self.base is None:
            return joined(before, after)
        return with_kinds(self.base.stored_files_of_window(before, after), self.service.file_kinds)

    def jobs(self, directory: Path, begin: float, end: float) -> Jobs | None:
        """As `Engine.jobs`."""
        return self.base.jobs(directory, begin, end) if self.base else None
