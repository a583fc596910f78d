"""When a record of ours was made."""

from __future__ import annotations

import re
from datetime import datetime


def created_at(created: str) -> datetime:
    """The time of `created` in any record of ours, with its zone where it has one. ValueError where it is none."""
    # Python 3.10 reads zones as +02:00 alone, and records have +0200.
    return datetime.fromisoformat(re.sub(r"([+-]\d\d)(\d\d)$", r"\1:\2", created))
