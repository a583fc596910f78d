"""Takes finished runs over into the documentation: `make docs`.

`python -m docs.refresh RUN OTHER EXPERIMENT COMPARISON` writes docs/flamegraph.svg and a picture of
each view of the report, and keeps of RUN and COMPARISON what docs/screens.py makes screens of. Everything is of RUN,
which all observers watched; OTHER is what its report is put beside; EXPERIMENT and COMPARISON are directories of
those. The picture of `versions` is of published figures. With one argument, DIR, it writes those of an experiment
`versions` over releases, which takes an hour, or of an `ioflame count` of several releases, and nothing else; with
`options` the tables of docs/usage.md from the list of options.
"""

from __future__ import annotations

import html
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, sync_playwright

from docs.screens import DOCS, keep, put_in, write_screens
from ground.results.counted import CountRun
from ground.results.files import Files
from ground.results.run import open_run
from ground.settings import TARGETS, Option, Setting, options_of
from ioflame.commands.arguments import listed
from ioflame.present.parts import screen

USAGE = DOCS / "usage.md"
PUBLISHED = DOCS.parent / "tests" / "data" / "9-absolute.tsv"
WIDTH = 1200  # px
LARGEST = 150_000  # bytes of a picture


@dataclass(frozen=True)
class View:
    """A picture: what is opened, what of it is taken, and what is done before.

    parts:  selectors; the picture reaches from the top of the first to the bottom of the last, or `height` px far
    before: what a reader does to see it
    """

    name: str
    page: Literal["run", "comparison", "terminal", "experiment", "versions", "compare", "curve", "count"]
    parts: tuple[str, ...]
    theme: Literal["light", "dark"] = "light"
    fragment: str = ""
    height: int | None = None
    before: Callable[[Page], object] | None = None


def _hover_a_frame(page: Page) -> None:
    page.locator("canvas").first.hover(position={"x": 560, "y": 18 * 20 + 9})


VIEWS = (
    View("report-top", "run", ("header.top", "section:has(#first-0)"), height=980),
    View("flamegraph-light", "run", ("section:has(#graph-0) > .flame .head", ".box"), before=_hover_a_frame),
    View("flamegraph-dark", "run", ("section:has(#graph-0) > .flame .head", ".box"), "dark", "#colour=group"),
    View("categories", "run", ("section:has(#where-0)",)),
    View("matrix", "run", ("figure:has(.matrix)",)),
    View("ladder", "run", ("figure:has([data-stage])", ".finding")),
    View("heatmap", "run", ("figure:has([data-heat])",)),
    View("histogram", "run", (".panel:has([data-heat]) .histograms",)),
    View(
        "flamegraph-off-cpu",
        "run",
        ("section:has(#graph-0) > .turns", ".flame[data-of=off] .box"),
        "dark",
        "#graph=off",
    ),
    View("states", "run", (".panel:has(.legend):not(:has([data-stage])) figure",)),
    View("timeline", "run", ("section:has(#time-0) figure",)),
    View("comparison", "comparison", ("header.top", "section[aria-labelledby=compare]"), height=980),
    View("compare", "compare", ("header.top", "section[aria-labelledby=figures]"), height=900),
    View("experiment", "experiment", ("header.top", "section[aria-labelledby=charts]"), height=980),
    View("experiment-versions", "versions", ("header.top", "section[aria-labelledby=relative]"), height=690),
    View("terminal", "terminal", ("pre",), "dark"),
)

CURVE = (
    View("releases-qps", "curve", ("section[aria-labelledby=relative] figure",)),
    View("releases-cpu", "curve", ("section[aria-labelledby=stacked] figure",)),
)

COUNTS = (View("releases-counted", "count", ("section[aria-labelledby=all] figure",)),)


def terminal_page(printed: str) -> str:
    """What a profile prints at its end, as a terminal shows it."""
    shown = html.escape("$ make profile\n" + printed)
    return (
        '<!doctype html><meta charset="utf-8"><title>terminal</title><body style="margin:0">'
        '<pre style="margin:0;padding:16px 20px;display:inline-block;background:#14181d;color:#e8eaed;'
        f"font:14px/1.35 ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace\">{shown}</pre>"
    )


def options_tables() -> None:
    """The variables of `profile`, and of the other targets what they have beside."""
    profile = [(setting, form) for setting, form in options_of("profile") if form.variable]
    rows = [f"| `{setting.name}` | {_default(form)} | {_meaning(form)} |" for setting, form in profile]
    put_in(USAGE, "options", "\n".join(["| variable | default | meaning |", "|---|---|---|", *rows]))
    others = ((setting, form) for setting in Setting for form in setting.forms if form.variable)
    rows = [
        f"| `{setting.name}` | {', '.join(targets)} | {_default(form)} | {_meaning(form)} |"
        for setting, form in others
        if "profile" not in form.commands and (targets := [one for one in TARGETS if one in form.commands.split()])
    ]
    put_in(USAGE, "variables", "\n".join(["| variable | of | default | meaning |", "|---|---|---|---|", *rows]))


def _default(form: Option) -> str:
    return listed(form.shown) or (f"`{form.default}`" if form.default else "none")


def _meaning(form: Option) -> str:
    return listed(form.help).replace("|", "\\|")


def picture(browser: Browser, view: View, address: str) -> Path:
    """Takes the picture, with its colours brought down to 256; its path."""
    context = browser.new_context(viewport={"width": WIDTH, "height": 1600}, color_scheme=view.theme)
    page = context.new_page()
    page.goto(address + view.fragment)
    unfold = "part => { const fold = document.querySelector(part).closest('details') ?? "
    unfold += "document.querySelector(part).querySelector('details.folded'); if (fold) fold.open = true; }"
    for part in view.parts:
        page.evaluate(unfold, part)
    page.evaluate("part => document.querySelector(part).scrollIntoView()", view.parts[0])
    if view.before is not None:
        view.before(page)
    edges = page.evaluate(
        "parts => { const b = parts.map(p => document.querySelector(p).getBoundingClientRect());"
        "return [b[0].left, b[0].top, b[0].right, b.at(-1).bottom]; }",
        list(view.parts),
    )
    left, top, right, bottom = (round(edge) for edge in edges)
    margin = 0 if left < 8 else 4
    clip = {
        "x": left - margin,
        "y": max(0, top - margin),
        "width": min(WIDTH, right + margin) - (left - margin),
        "height": min(bottom - top, view.height or bottom - top) + 2 * margin,
    }
    out = DOCS / f"{view.name}.png"
    page.screenshot(path=out, clip=clip)  # type: ignore[arg-type]
    context.close()
    subprocess.run(["pngquant", "--strip", "--speed", "1", "--force", "--ext", ".png", "256", str(out)], check=True)
    return out


def pictures(views: Sequence[View], pages: Mapping[str, Path]) -> None:
    """Takes them of these pages, by name; an exit code where one is too large for a repository."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=["--no-sandbox", "--disable-gpu", "--disable-lcd-text", "--disable-background-networking"],
        )
        taken = [picture(browser, view, pages[view.page].resolve().as_uri()) for view in views]
        browser.close()
    for path in taken:
        print(f"{path.relative_to(DOCS.parent)}   {path.stat().st_size / 1000:.0f} kB")
    large = [path.name for path in taken if path.stat().st_size > LARGEST]
    if large:
        sys.exit(f"larger than {LARGEST / 1000:.0f} kB: {', '.join(large)}")


def main() -> None:
    if sys.argv[1:] == ["options"]:
        options_tables()
        return
    if len(sys.argv) == 2:
        given = Path(sys.argv[1])
        if CountRun.is_in(given):
            pictures(COUNTS, {"count": given / Files.REPORT})
        else:
            pictures(CURVE, {"curve": given / "experiment.html"})
        return
    if len(sys.argv) != 5:
        sys.exit(
            "python -m docs.refresh RUN OTHER EXPERIMENT COMPARISON, or DIR   (directories; make docs makes the four)"
        )
    run, other, experiment, comparison = map(Path, sys.argv[1:])
    shutil.copy(run / "flamegraph.svg", DOCS / "flamegraph.svg")
    printed = screen(open_run(run), "ioflame show runs/latest", 100).strip("\n")
    with tempfile.TemporaryDirectory() as folder:
        made = {"run": run / "report.html", "experiment": experiment / "experiment.html"}
        pages = {name: Path(folder) / f"{name}.html" for name in ("comparison", "terminal", "versions")}
        pages |= made | {"compare": comparison / "compare.html"}
        ioflame = Path(sys.executable).with_name("ioflame")
        subprocess.run([ioflame, "report", PUBLISHED, "-o", pages["versions"]], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([ioflame, "report", run, other, "-o", pages["comparison"]], check=True)
        pages["terminal"].write_text(terminal_page(printed), encoding="utf-8")
        pictures(VIEWS, pages)
    options_tables()
    keep(run, "readrandom")
    keep(comparison, "comparison")
    write_screens()


if __name__ == "__main__":
    main()
