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
from playwright.sync_api import Browser, Page, sync_playwright

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


class Opener:
    """Opens an SVG or a page from disk. What the page complains of or asks for is kept, and must be nothing."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self._browser = browser
        self._folder = folder
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
    ) -> Page:
        """Opens a page, as `__call__` opens a drawing."""
        return self._open("html", page, width, height, dark, scripts, fragment)

    def _open(self, kind: str, text: str, width: int, height: int, dark: bool, scripts: bool, fragment: str) -> Page:
        file = self._folder / f"graph{len(self.requests)}.{kind}"
        file.write_text(text, encoding="utf-8")
        context = self._browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            java_script_enabled=scripts,
            accept_downloads=True,
        )
        page = context.new_page()
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(file.as_uri() + fragment)
        return page


@pytest.fixture
def chromium_page(chromium: Browser, tmp_path: Path) -> Iterator[Opener]:
    opener = Opener(chromium, tmp_path)
    yield opener
    for context in chromium.contexts:
        context.close()
    assert opener.complaints == []
    assert [url for url in opener.requests if not url.startswith(("file:", "blob:file:"))] == []


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
                archive.extractall(kept, filter="data")
        return kept / "package"

    return unpack
