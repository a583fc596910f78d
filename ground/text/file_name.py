"""A name that any text can have as a file or directory."""

from __future__ import annotations

import re

_OTHERS = re.compile(r"[^\w.+-]")


def file_name(text: str) -> str:
    """`text` with `_` for each character that is no letter or digit and none of `-_.+`: no blank, no slash."""
    return _OTHERS.sub("_", text)
