"""The directory of a study: its record says what was asked and what of it is measured, step by step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from ground.errors import UsageError
from ground.results.run import new_directory
from ground.system.atomic_files import read_json, write_json

if TYPE_CHECKING:
    from typing_extensions import Self

_Record = TypeVar("_Record")


class StudyRun(Generic[_Record]):
    """file: of the record; form: its type, with its schema as a default; what: it is, in words; kind: in a word"""

    file: ClassVar[str]
    form: ClassVar[type[Any]]
    what: ClassVar[str]
    kind: ClassVar[str]

    def __init__(self, directory: Path, record: _Record) -> None:
        self.directory = directory
        self.record = record

    @staticmethod
    def name_of(record: _Record) -> str:
        """What a new directory is called, behind the time."""
        raise NotImplementedError

    @staticmethod
    def identity(record: _Record) -> dict[str, object]:
        """What has to be the same of two parts of one study, by name."""
        raise NotImplementedError

    def summary(self) -> tuple[str, str]:
        """What was measured, and how it came out, for `ioflame runs`."""
        raise NotImplementedError

    @classmethod
    def create(cls, out: Path, record: _Record) -> Self:
        """A new directory in `out`; UsageError when that cannot be written to."""
        run = cls(new_directory(out, cls.name_of(record)), record)
        run.save()
        return run

    @classmethod
    def open(cls, path: Path) -> Self:
        """Of its directory, or of the file in it. UsageError when there is none, MeasurementError when it is broken."""
        file = path if path.is_file() else path / cls.file
        try:
            file.stat()
        except OSError as error:
            raise UsageError(
                f"{file} cannot be read: {error.strerror}",
                means=f"{path} is not the directory of {cls.what}",
                mend="<the directory that it was made in>",
            ) from None
        return cls(file.parent, read_json(file, cls.form, f"the record of {cls.what}"))

    @classmethod
    def is_in(cls, directory: Path) -> bool:
        return (directory / cls.file).is_file()

    def save(self) -> None:
        """Writes the record whole or not at all."""
        write_json(self.directory / self.file, self.record)
