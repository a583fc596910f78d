"""Byte sizes, counts, durations and cut decimals, as people write them and as we print them."""

from __future__ import annotations

import re
from decimal import ROUND_DOWN, Decimal

_BYTES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SECONDS = {"us": 1e-6, "ms": 1e-3, "": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_COUNTS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "B": 10**9}


def parse_bytes(text: str) -> int:
    """Bytes of `64M`, `64MiB`, `1.5G` or `1048576`; units are powers of 1024. ValueError otherwise."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    if not match:
        raise ValueError(f"{text!r} is not a size: write bytes, or a number with K, M, G or T (64M = 67108864)")
    return int(float(match[1]) * _BYTES[match[2].upper()])


def parse_count(text: str) -> int:
    """A count as `10000000`, `10M` or `1.5G`; units are powers of 1000. ValueError otherwise."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGB]?)\s*", text, re.IGNORECASE)
    if not match:
        raise ValueError(f"{text!r} is not a count: write a whole number, or one with K, M or G (10M = 10000000)")
    value = float(match[1]) * _COUNTS[match[2].upper()]
    if value != int(value):
        raise ValueError(f"{text!r} is not a whole number")
    return int(value)


def parse_time(text: str) -> float:
    """Seconds of `90`, `20s`, `10m`, `2h`, `7d` or `2ms`. ValueError otherwise."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|[smhd]?)", text)
    if not match:
        raise ValueError(f"{text!r}: expected a time: seconds, or a number with s, m, h or d (40m = 2400 s)")
    return float(match[1]) * _SECONDS[match[2]]


def parse_percent(text: str) -> float:
    """The part of 1 that `2%` is. ValueError otherwise."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", text)
    if not match:
        raise ValueError(f"{text!r} is no percentage such as 2%")
    return float(match[1]) / 100


def format_bytes(count: float) -> str:
    """`417.2 MiB`: three or four significant figures, powers of 1024."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def format_count(count: int) -> str:
    """`10,000,000`."""
    return f"{count:,}"


def format_figure(value: float) -> str:
    """`142,710` or `0.01234`: whole from 1,000 on, four significant figures below."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def format_seconds(seconds: float) -> str:
    """`42 s`, or `3 min 05 s` from two minutes on."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"


def truncate(value: float | str | Decimal, digits: int = 3) -> str:
    """`value` cut, not rounded, to `digits` decimals, as bc with scale=3 prints it: .8448 is 0.844."""
    step = Decimal(1).scaleb(-digits)
    return str(Decimal(str(value)).quantize(step, rounding=ROUND_DOWN))
