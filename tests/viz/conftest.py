"""A real Chromium for what only a browser can tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Error, Page, Request, sync_playwright

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*ARGUMENTS])
        yield browser
        browser.close()


class Pages:
    """Browser pages kept from test to test: to open one costs several times what the tests then do with it."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._free: dict[tuple[bool, bool], Page] = {}

    def take(self, dark: bool, scripts: bool, own: bool) -> Page:
        """One that nobody has, as new: of the theme, with scripts or without. own: with a storage of its own"""
        if not own and (kept := self._free.pop((dark, scripts), None)):
            return kept
        context = self._browser.new_context(
            color_scheme="dark" if dark else "light", java_script_enabled=scripts, accept_downloads=True
        )
        # Says no more than that a page did not do it at all: 30 s have passed on a host with forty busy processes.
        context.set_default_timeout(600_000)
        return context.new_page()

    def give_back(self, page: Page, dark: bool, scripts: bool, own: bool) -> None:
        """What a test has left in it is taken away; a second one of its kind is closed."""
        if own or (dark, scripts) in self._free or page.is_closed():
            page.context.close()
            return
        page.mouse.move(0, 0)
        page.emulate_media(media="null", color_scheme="dark" if dark else "light")
        page.goto("about:blank")
        self._free[dark, scripts] = page


@pytest.fixture(scope="session")
def pages(chromium: Browser) -> Pages:
    return Pages(chromium)


class Opener:
    """Opens an SVG or a page from disk. What the page complains of or asks for is kept, and must be nothing."""

    def __init__(self, pages: Pages, folder: Path) -> None:
        self._pages = pages
        self._folder = folder
        self._taken: list[tuple[Page, bool, bool, bool]] = []
        self.complaints: list[str] = []
        self.requests: list[str] = []

    def __call__(self, svg: str, **how: Any) -> Page:
        return self._open("svg", svg, **how)

    def html(self, page: str, *, folded: bool = False, **how: Any) -> Page:
        """Opens a page, as `__call__` opens a drawing. folded: as it comes; every section is open otherwise"""
        if not folded:
            page = str(page).replace('<details class="folded">', '<details class="folded" open>')
        return self._open("html", page, **how)

    def _open(
        self,
        kind: str,
        text: str,
        *,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        scripts: bool = True,
        fragment: str = "",
        own: bool = False,
    ) -> Page:
        """own: in a context of its own, for a page that stores something"""
        file = self._folder / f"graph{len(self.requests)}.{kind}"
        file.write_text(text, encoding="utf-8")
        page = self._pages.take(dark, scripts, own)
        self._taken.append((page, dark, scripts, own))
        page.set_viewport_size({"width": width, "height": height})
        for event, listen in self._listeners().items():
            page.on(event, listen)  # type: ignore[call-overload]
        page.goto(file.as_uri() + fragment)
        return page

    def _listeners(self) -> dict[str, Callable[..., None]]:
        return {
            "console": self._on_console,
            "pageerror": self._on_error,
            "dialog": self._on_dialog,
            "request": self._on_request,
        }

    def _on_console(self, message: ConsoleMessage) -> None:
        self.complaints.append(message.text)

    def _on_error(self, error: Error) -> None:
        self.complaints.append(str(error))

    def _on_dialog(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog: {dialog.message}")

    def _on_request(self, request: Request) -> None:
        self.requests.append(request.url)

    def close(self) -> None:
        for page, *how in self._taken:
            self._pages.give_back(page, *how)
            for event, listen in self._listeners().items():
                page.remove_listener(event, listen)


@pytest.fixture
def chromium_page(pages: Pages, tmp_path: Path) -> Iterator[Opener]:
    opener = Opener(pages, tmp_path)
    yield opener
    opener.close()
    assert opener.complaints == []
    local = ("file:", "blob:file:", "about:blank")
    assert [url for url in opener.requests if not url.startswith(local)] == []


# Of what a frame saves within a second, Chromium drops all beyond ten files without a word.
_BURST = 8


def saved_by(open_page: Callable[[], Page]) -> dict[str, bytes]:
    """What each button of a page saves, by file name. open_page: opens it, anew for each eight"""
    saved: dict[str, bytes] = {}
    first, count = 0, 1
    while first < count:
        page = open_page()
        buttons = page.locator(":is([data-save], [data-part=save]):visible").all()
        count = len(buttons)
        for button in buttons[first : first + _BURST]:
            with page.expect_download() as download:
                button.click()
            saved[download.value.suggested_filename] = Path(download.value.path()).read_bytes()
        first += _BURST
    return saved
