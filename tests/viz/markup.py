"""Reads the content of a plot, of a drawing and of a page's tables."""

from __future__ import annotations

import html
import json
import re
from typing import Any
from xml.etree import ElementTree

_SVG = "{http://www.w3.org/2000/svg}"


def text_of(markup: str) -> str:
    """Its words alone."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", markup)).split())


def rows_of(page: str, title: str) -> list[list[str]]:
    """The cells of the table under that title, as text."""
    start = page.index(f"<figcaption><span>{html.escape(title)}</span>")
    body = page[start : page.index("</figure>", start)]
    rows = re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    return [
        [html.unescape(re.sub(r"<[^>]*>", "", cell)) for cell in re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row)]
        for row in rows
    ]


def data_of(drawing: str) -> dict[str, Any]:
    """What the script of a flame graph's file reads."""
    (found,) = ElementTree.fromstring(drawing).iterfind(f"{_SVG}script[@class='data']")
    data: dict[str, Any] = json.loads(found.text or "")
    return data


def drawn(plot: str, name: str, kind: str) -> list[ElementTree.Element]:
    """Elements of that name and class, in their order."""
    every = ElementTree.fromstring(plot).iter(_SVG + name)
    return [one for one in every if kind in one.get("class", "").split()]


def titles(plot: str) -> list[str]:
    """What is said of each element that the pointer rests on."""
    return [one.text or "" for one in ElementTree.fromstring(plot).iter(_SVG + "title")]
