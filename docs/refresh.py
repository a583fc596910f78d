"""Takes a finished run over into the documentation: `docs/refresh.py RUN` (`make docs` makes the run first).

Writes docs/summary.txt, docs/flamegraph.svg, docs/flamegraph.png, and the summary between the markers of README.md.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

DOCS = Path(__file__).parent
README = DOCS.parent / "README.md"
_MARKED = re.compile(r"(<!-- summary:begin[^\n]*\n).*?(<!-- summary:end -->)", re.DOTALL)


def screenshot(svg: Path, png: Path) -> None:
    """A picture of the whole graph, as a browser shows it in its light theme."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        page = browser.new_page(viewport={"width": 1400, "height": 800}, color_scheme="light")
        page.goto(svg.resolve().as_uri())
        height = page.evaluate("document.documentElement.getBoundingClientRect().height")
        page.set_viewport_size({"width": 1400, "height": int(height) + 1})
        page.screenshot(path=png)
        browser.close()


def main() -> None:
    run = Path(sys.argv[1])
    for name in ("summary.txt", "flamegraph.svg"):
        shutil.copy(run / name, DOCS / name)
    screenshot(DOCS / "flamegraph.svg", DOCS / "flamegraph.png")
    block = f"```\n{(DOCS / 'summary.txt').read_text()}```\n"
    README.write_text(_MARKED.sub(lambda found: found[1] + block + found[2], README.read_text()))


if __name__ == "__main__":
    main()
