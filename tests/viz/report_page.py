"""What a test asks of an open page."""

from __future__ import annotations

from playwright.sync_api import Page


def assert_fits(page: Page) -> None:
    """Nothing hangs over the edge of a wide window, nor of a telephone's."""
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def part(page: Page, name: str) -> str:
    return page.locator(f'[data-part="{name}"]').first.inner_text()


def search(page: Page, words: str) -> str:
    page.keyboard.press("/")
    page.keyboard.type(words)
    return part(page, "found")


def node(page: Page, frames: tuple[str, ...]) -> int:
    """The number of a frame in the file's tree, by its path."""
    found = page.evaluate(
        """([frames]) => { const p = ioflameRuns[0].profile; const s = p.ends.findIndex((_, s) =>
           frames.every((f, d) => p.data.names[p.name[p.nodesOf(s)[d] ?? 0]] === f));
           return p.nodesOf(s)[frames.length - 1]; }""",
        [list(frames)],
    )
    assert isinstance(found, int)
    return found


def boxes(page: Page) -> list[list[object]]:
    """Name and share of each drawn frame that is no ancestor of the view."""
    found: list[list[object]] = page.evaluate(
        "(() => { const g = ioflameRuns[0].graph; return g.boxes.filter(b => !b.above)"
        ".map(b => [g.nameOf(b.part.tree, b.node), b.part.tree.weight[b.node]]); })()"
    )
    return found
