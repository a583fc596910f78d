"""Scripts and style sheets, which are put into the files that we write."""

from __future__ import annotations

from importlib import resources


def asset(*names: str) -> str:
    """The files of these names, one after the other."""
    return "".join(resources.files(__name__).joinpath(name).read_text(encoding="utf-8") for name in names)
