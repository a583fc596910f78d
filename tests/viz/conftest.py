"""A real Chromium for what only a browser can tell."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Error, Page, Request, sync_playwright

from ground.system.unpack import unpack_into

NpmPackage = Callable[[str, str, str], Path]
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

    def take(self, dark: bool, scripts: bool) -> Page:
        """One that nobody has, as new: of the theme, with scripts or without."""
        if kept := self._free.pop((dark, scripts), None):
            return kept
        context = self._browser.new_context(
            color_scheme="dark" if dark else "light", java_script_enabled=scripts, accept_downloads=True
        )
        return context.new_page()

    def give_back(self, page: Page, dark: bool, scripts: bool) -> None:
        """What a test has left in it is taken away; a second one of its kind is closed."""
        if (dark, scripts) in self._free or page.is_closed():
            page.context.close()
            return
        if scripts:
            page.evaluate("localStorage.clear()")
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
        self._taken: list[tuple[Page, bool, bool]] = []
        self.complaints: list[str] = []
        self.requests: list[str] = []

    def __call__(
        self,
        svg: str,
        *,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        scripts: bool = True,
        fragment: str = "",
    ) -> Page:
        return self._open("svg", svg, width, height, dark, scripts, fragment)

    def html(
        self,
        page: str,
        *,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        scripts: bool = True,
        fragment: str = "",
        folded: bool = False,
    ) -> Page:
        """Opens a page, as `__call__` opens a drawing. folded: as it comes; every section is open otherwise"""
        if not folded:
            page = str(page).replace('<details class="folded">', '<details class="folded" open>')
        return self._open("html", page, width, height, dark, scripts, fragment)

    def _open(self, kind: str, text: str, width: int, height: int, dark: bool, scripts: bool, fragment: str) -> Page:
        file = self._folder / f"graph{len(self.requests)}.{kind}"
        file.write_text(text, encoding="utf-8")
        page = self._pages.take(dark, scripts)
        self._taken.append((page, dark, scripts))
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
        for page, dark, scripts in self._taken:
            self._pages.give_back(page, dark, scripts)
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


@pytest.fixture(scope="session")
def npm_package(request: pytest.FixtureRequest) -> NpmPackage:
    """Unpacks `name` of `version` from the npm registry, pinned by its SHA-512, for tests alone; kept between runs.

    Without npm or the registry the test is skipped, and fails with --require-all.
    """

    def unpack(name: str, version: str, sha512: str) -> Path:
        plain = name.removeprefix("@").replace("/", "-")  # as npm pack names it
        kept = request.config.cache.mkdir(f"{plain}-{version}")
        package = kept / f"{plain}-{version}.tgz"
        said = "npm is not installed"
        if not package.exists() and shutil.which("npm"):
            words = ["npm", "pack", f"{name}@{version}", "--pack-destination", str(kept)]
            said = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120).stderr[-300:]
        if not package.exists():
            words_of = f"{name} {version} could not be had: {said}"
            if request.config.getoption("--require-all"):
                pytest.fail(words_of)
            pytest.skip(words_of)
        assert base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode() == sha512
        if not (kept / "package").exists():
            with tarfile.open(package) as archive:
                unpack_into(archive, kept)
        return kept / "package"

    return unpack
