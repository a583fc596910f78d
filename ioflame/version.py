"""Which ioflame this is: its version, and the commit it was built from where that is known."""

from __future__ import annotations

from pathlib import Path

from ground.errors import IoflameError
from ground.system.process import capture
from ioflame import __version__

# Written by dist.sh into the wheel.
_COMMIT = Path(__file__).with_name("built_from")
_ROOT = Path(__file__).parent.parent


def version() -> str:
    """`0.1.0 (1a2b3c4d5)`; `-dirty` behind the commit of a checkout with changes, no commit where there is no git."""
    commit = _COMMIT.read_text(encoding="ascii").strip() if _COMMIT.exists() else _of_checkout()
    return f"{__version__} ({commit})" if commit else __version__


def _of_checkout() -> str:
    if not (_ROOT / ".git").exists():
        return ""
    try:
        found = capture(["git", "-C", str(_ROOT), "describe", "--always", "--dirty", "--exclude=*"], timeout=10)
    except IoflameError:  # there is no git here
        return ""
    return found.text.strip() if found.returncode == 0 else ""
