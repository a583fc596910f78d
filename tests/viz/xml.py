"""xmllint as the judge of what is XML."""

from __future__ import annotations

import subprocess

__all__ = ("xmllint",)


def xmllint(document: str | bytes) -> None:
    """Fails with xmllint's own words unless `document` is well-formed."""
    data = document.encode() if isinstance(document, str) else document
    argv = ["xmllint", "--noout", "--nonet", "--huge", "-"]
    done = subprocess.run(argv, input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[:2000]
