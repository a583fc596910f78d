"""`tomllib`, which Python has since 3.11; on 3.10 the package it was made of."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ("tomllib",)
