"""Names from a profile as text that can be shown anywhere."""

from __future__ import annotations

import re

# What XML 1.0 forbids (production [2] Char); DEL and the C1 controls, which no viewer can show; line
# separators; and the marks that turn the direction of text, which would turn the figures beside a name too.
_NOT_PRINTABLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def printable(raw: bytes | str) -> str:
    """`raw` as text that XML and terminals can hold; what they cannot becomes U+FFFD."""
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    return _NOT_PRINTABLE.sub("\ufffd", text)
