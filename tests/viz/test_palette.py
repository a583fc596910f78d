"""Colours that can be read, and told apart by eyes of every kind."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ground.results.hues import HUES
from ground.text.toml import tomllib
from viz.assets import asset
from viz.flame.palette import THEMES, Theme, fills, hue_places
from workloads.registry import engine_names, rules_named, service_names, service_rules

Rgb = tuple[float, float, float]
NINE = [*(f"category {i}" for i in range(8)), "other"]

# Machado, Oliveira and Fernandes (2009), full severity, on linear RGB
BLINDNESS = {
    "none": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def rgb(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))


def linear(colour: str) -> Rgb:
    shares = (value / 255 for value in rgb(colour))
    return tuple(c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares)  # type: ignore[return-value]


def contrast(one: str, other: str) -> float:
    dark, light = sorted(0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in (linear(one), linear(other)))
    return (light + 0.05) / (dark + 0.05)


def oklab(light: Rgb) -> Rgb:
    r, g, b = light
    long, medium, short = (
        max(0.0, cone) ** (1 / 3)
        for cone in (
            0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b,
            0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b,
            0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b,
        )
    )
    return (
        0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short,
    )


def seen(colour: str, blindness: str) -> Rgb:
    light = linear(colour)
    mixed = [sum(a * b for a, b in zip(row, light, strict=True)) for row in BLINDNESS[blindness]]
    red, green, blue = (min(1.0, max(0.0, value)) for value in mixed)
    return oklab((red, green, blue))


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
def test_text_has_aa_contrast_everywhere(theme: Theme) -> None:
    (drawn,) = re.findall(r"\.f\.pale rect \{ fill-opacity: ([\d.]+)", asset("svg_flame_graph.css"))
    (painted,) = re.findall(r"pen\.globalAlpha = one\.above .* \? ([\d.]+) : 1;", asset("canvas.js"))
    assert drawn == painted
    page = rgb(theme.colours["page"])
    for fill in fills([f"category {i}" for i in range(16)] + ["other"], theme):
        assert contrast(theme.colours["frame-ink"], fill) >= 4.5, fill
        pale = float(drawn)
        mixed = [round(pale * over + (1 - pale) * below) for over, below in zip(rgb(fill), page, strict=True)]
        assert contrast(theme.colours["ink"], "#{:02x}{:02x}{:02x}".format(*mixed)) >= 4.5, fill
    pairs = [
        (theme.colours["ink"], theme.colours["page"]),
        (theme.colours["ink"], theme.colours["panel"]),
        (theme.colours["quiet"], theme.colours["page"]),
        (theme.colours["quiet"], theme.colours["panel"]),
        (theme.colours["match-ink"], theme.colours["match"]),
        (theme.colours["warn-ink"], theme.colours["warn"]),
    ]
    for text, ground in pairs:
        assert contrast(text, ground) >= 4.5, (text, ground)


@pytest.mark.parametrize("blindness", BLINDNESS)
@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
def test_the_nine_owner_colours_can_be_told_apart(theme: Theme, blindness: str) -> None:
    # 0.02 in OKLab is about one just noticeable difference
    for one, other in itertools.combinations(fills(NINE, theme), 2):
        apart = math.dist(seen(one, blindness), seen(other, blindness))
        assert apart > (0.06 if blindness == "none" else 0.02), (one, other)


def test_other_is_grey_and_takes_no_hue() -> None:
    theme = THEMES["light"]
    assert fills(["other", "a"], theme) == [theme.colours["other"], theme.hues[0]]
    assert len(set(fills([str(i) for i in range(16)], theme))) == 16


def _views() -> Iterator[tuple[str, list[str]]]:
    """The rules of each engine, and of each service over its base."""
    for name in engine_names():
        yield from _names(name, tomllib.loads(Path(rules_named(name).categories).read_text(encoding="utf-8")))
    for name in service_names():
        yield from _names(name, service_rules(name))


def _names(engine: str, rules: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    for view in sorted({"owner", "writes"} & rules["view"].keys()):
        yield f"{engine}: {view}", list(dict.fromkeys(one["name"] for one in rules["view"][view]["category"]))


@pytest.mark.parametrize(("view", "names"), list(_views()))
def test_a_category_has_one_colour_whatever_is_drawn_beside_it(view: str, names: list[str]) -> None:
    places = dict(zip(names, hue_places(names), strict=True))
    assert len(set(places.values())) == len(names) or len(names) > 16, view
    for name in names:
        assert hue_places(["a user's own", name, "other"])[1] == places[name], name
    assert hue_places(names[::-1]) == [places[name] for name in names[::-1]]


def test_every_category_with_a_colour_of_its_own_is_one_of_our_rules() -> None:
    assert set(HUES) == {name for _, names in _views() for name in names}
