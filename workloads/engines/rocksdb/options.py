"""The newest OPTIONS file of a database."""

from __future__ import annotations

import configparser
from pathlib import Path

from ground.errors import MeasurementError


def newest_options(directory: Path) -> configparser.ConfigParser | None:
    """None where there is none; MeasurementError where it cannot be read."""
    newest = max(directory.glob("OPTIONS-*[0-9]"), key=lambda p: int(p.name.rpartition("-")[2]), default=None)
    if newest is None:
        return None
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    try:
        parser.read_string(newest.read_text(encoding="utf-8", errors="replace"))
    except configparser.Error as error:
        raise MeasurementError(f"{newest} cannot be read: {error}") from None
    return parser
