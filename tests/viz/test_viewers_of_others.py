"""Our files in the viewers that they are for, and our pages under axe-core's rules, all fetched from npm.

By hand, for it needs the network. The gate reads the same files in test_page_parts.py, and asks for the roles and names
of a page in test_report_file.py.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import tarfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from ground.system.unpack import unpack_into
from tests.viz.conftest import Opener
from tests.viz.observers import observed
from tests.viz.runs import page_of, view
from tests.viz.samples import stacks
from viz.export.firefox import firefox_profile
from viz.export.speedscope import speedscope
from viz.flame.stacks import Stack

pytestmark = pytest.mark.by_hand

NpmPackage = Callable[..., Path]
# For these tests alone, pinned by digest; axe-core is MPL-2.0 and never put into a page that we ship.
AXE = "axe-core", "4.14.1", "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
FIREFOX = (
    "@firefox-devtools/profiler-cli", "0.10.0",
    "f9fqdHh7B6ddQIYrwrEs4FE5D8BMOsXSorYF4NRFfwPaGikVBlhorBxHT7zrb6WMgJgKQYHC9kazkRjbItLx8Q==",
)  # fmt: skip
SPEEDSCOPE = (
    "speedscope", "1.25.0", "cpf9HWTZf1ijLXBJrk87Ve/54tnYx6rlf0gUThvn3ook6h63hLXVOQiMf44PT+XoV503cPfvfiT5gP5vojp6Ag==",
)  # fmt: skip


@pytest.fixture(scope="session")
def npm_package(request: pytest.FixtureRequest) -> NpmPackage:
    """Unpacks `name` of `version` from the npm registry, pinned by its SHA-512; kept between runs."""

    def unpack(name: str, version: str, sha512: str) -> Path:
        plain = name.removeprefix("@").replace("/", "-")  # as npm pack names it
        kept = request.config.cache.mkdir(f"{plain}-{version}")
        package = kept / f"{plain}-{version}.tgz"
        if not package.exists():
            subprocess.run(["npm", "pack", f"{name}@{version}", "--pack-destination", str(kept)], check=True)
        assert base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode() == sha512
        if not (kept / "package").exists():
            with tarfile.open(package) as archive:
                unpack_into(archive, kept)
        return kept / "package"

    return unpack


def weights(some: list[Stack]) -> tuple[Counter[str], Counter[str]]:
    """By function: its own weight, and that of the stacks it is on."""
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for stack in some:
        own[stack.frames[-1]] += stack.weight
        for name in set(stack.frames):
            total[name] += stack.weight
    return own, total


RECURSION = Stack(("db_bench", "again<&>", "x", "again<&>"), 500_000_000)


def threaded() -> list[Stack]:
    """The sample stacks with threads and objects, and a recursion on top."""
    return [
        replace(
            stack,
            thread=f"{stack.frames[0]}/{40 + index % 2}",
            objects=(
                "",
                *("[kernel.kallsyms]" if f.endswith("_[k]") else "/usr/lib/librocksdb.so.7" for f in stack.frames[1:]),
            ),
        )
        for index, stack in enumerate([RECURSION, *stacks()])
    ]


# Its command line gives its own server half a second to start, so it needs a quiet host.
@pytest.mark.needs("node")
def test_the_firefox_profiler_reads_our_file(npm_package: NpmPackage, tmp_path: Path) -> None:
    package = npm_package(*FIREFOX)
    given = threaded()
    (tmp_path / "x.json").write_text(firefox_profile(given, "ours", "ns"))

    def ask(*words: str) -> str:
        argv = ["node", str(package / "dist" / "profiler-cli.js"), *words]
        home = {**os.environ, "HOME": str(tmp_path)}
        done = subprocess.run(argv, cwd=tmp_path, env=home, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        ask("load", "x.json")
        listed = json.loads(ask("thread", "list", "--json"))["threads"]
        handles = {f"{one['name']}/{one['tid']}": one["threadHandle"] for one in listed}
        assert set(handles) == {stack.thread for stack in given}
        for thread, handle in handles.items():
            told = json.loads(ask("thread", "functions", "--thread", handle, "--limit", "0", "--json"))
            assert told["weightType"] == "tracing-ms"
            own, total = weights([stack for stack in given if stack.thread == thread])
            assert {one["name"] for one in told["functions"]} == set(total)
            for one in told["functions"]:
                assert one["selfSamples"] == pytest.approx(own[one["name"]] / 1e6)
                assert one["totalSamples"] == pytest.approx(total[one["name"]] / 1e6)
                if one["name"].endswith("_[k]"):
                    assert one["library"] == "[kernel.kallsyms]"
                elif one["name"] not in ("db_bench", "rocksdb:low"):
                    assert one["library"] == "librocksdb.so.7"
    finally:
        ask("stop", "--all")


@pytest.mark.needs("chromium")
def test_speedscope_reads_our_file(chromium: Browser, npm_package: NpmPackage, tmp_path: Path) -> None:
    some = [RECURSION, *(s for s in stacks() if s.frames[0] == "db_bench")]
    file = base64.b64encode(speedscope(some, "ours", "bytes").encode()).decode()
    script = tmp_path / "given.js"
    script.write_text(f"speedscope.loadFileFromBase64('ours.speedscope.json', {json.dumps(file)})")
    viewer = npm_package(*SPEEDSCOPE) / "dist" / "release" / "index.html"
    page = chromium.new_page()
    page.goto(f"{viewer.as_uri()}#localProfilePath={script}&view=sandwich")
    page.wait_for_function("document.title.startsWith('ours')")
    page.wait_for_selector("table tr:nth-child(8)")
    rows = page.locator("table tr").all_inner_texts()
    page.close()
    # the heaviest by self weight; speedscope prints two digits of a share
    whole = sum(s.weight for s in some)
    own, total = weights(some)
    for name, _ in own.most_common(5):
        row = next(row for row in rows if row.rstrip().endswith(name))
        total_share, own_share = (float(cell.rpartition("(")[2]) for cell in row.replace("\t", " ").split("%")[:2])
        assert total_share == pytest.approx(100 * total[name] / whole, rel=0.06)
        assert own_share == pytest.approx(100 * own[name] / whole, rel=0.06)


def findings(page: Any, axe: str) -> list[str]:
    devtools = page.context.new_cdp_session(page)  # beside the page's policy, which lets no script in
    devtools.send("Runtime.evaluate", {"expression": axe})
    asked = {"expression": "axe.run().then(r => JSON.stringify(r.violations))", "awaitPromise": True}
    answer = devtools.send("Runtime.evaluate", asked)
    return [
        f"{v['impact']} {v['id']}: {node['target']} {node['failureSummary']}"
        for v in json.loads(answer["result"]["value"])
        for node in v["nodes"]
        if v["impact"] in ("serious", "critical", "moderate")
    ]


@pytest.mark.needs("chromium")
@pytest.mark.parametrize(("width", "dark"), [(400, False), (1280, False), (1280, True)])
def test_axe_finds_nothing_serious(chromium_page: Opener, npm_package: NpmPackage, width: int, dark: bool) -> None:
    axe = (npm_package(*AXE) / "axe.min.js").read_text(encoding="utf-8")
    assert findings(chromium_page.html("<html><body><img src=''><button></button>"), axe) != []
    runs = [view(name="a", observed=observed()), view(name="b", observed=observed(), threads=2)]
    for some in (runs[:1], runs):
        page = chromium_page.html(page_of(some), dark=dark, width=width)
        assert findings(page, axe) == []
        page.locator("article:visible .keys [data-owner='0']").first.click()
        page.keyboard.press("/")
        page.keyboard.type("/(/")
        page.locator("article:visible .flame:visible canvas").hover(position={"x": 300, "y": 27})
        assert findings(page, axe) == []
        page.locator("article:visible [data-graph=off]").click()
        page.locator("article:visible .panel:has([data-stage]) button[data-scale=linear]").click()
        page.locator("article:visible rect[data-stage=device]").hover()
        assert findings(page, axe) == []
