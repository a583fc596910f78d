"""Our speedscope file in speedscope itself: the figures it shows are those of the stacks."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.viz.conftest import NpmPackage
from tests.viz.samples import stacks
from viz.export.speedscope import speedscope
from viz.flame.stacks import Stack

SHA512 = "cpf9HWTZf1ijLXBJrk87Ve/54tnYx6rlf0gUThvn3ook6h63hLXVOQiMf44PT+XoV503cPfvfiT5gP5vojp6Ag=="


@pytest.mark.needs("chromium")
def test_speedscope_reads_our_file(chromium: Browser, npm_package: NpmPackage, tmp_path: Path) -> None:
    some = [s for s in stacks() if s.frames[0] == "db_bench"]
    some.append(Stack(("db_bench", "again<&>", "x", "again<&>"), 500_000_000))
    file = base64.b64encode(speedscope(some, "ours", "bytes").encode()).decode()
    script = tmp_path / "given.js"
    script.write_text(f"speedscope.loadFileFromBase64('ours.speedscope.json', {json.dumps(file)})")
    viewer = npm_package("speedscope", "1.25.0", SHA512) / "dist" / "release" / "index.html"
    page = chromium.new_page()
    page.goto(f"{viewer.as_uri()}#localProfilePath={script}&view=sandwich")
    page.wait_for_function("document.title.startsWith('ours')", timeout=20_000)
    page.wait_for_selector("table tr:nth-child(8)")
    rows = page.locator("table tr").all_inner_texts()
    page.close()
    # the heaviest by self weight; speedscope prints two digits of a share
    whole = sum(s.weight for s in some)
    names = {frame for s in some for frame in s.frames}
    self_of = {name: sum(s.weight for s in some if s.frames[-1] == name) for name in names}
    total_of = {name: sum(s.weight for s in some if name in s.frames) for name in names}
    for name in sorted(names, key=lambda one: -self_of[one])[:5]:
        row = next(row for row in rows if row.rstrip().endswith(name))
        total, self = row.replace("\t", " ").split("%")[:2]
        assert float(total.rpartition("(")[2]) == pytest.approx(100 * total_of[name] / whole, rel=0.06)
        assert float(self.rpartition("(")[2]) == pytest.approx(100 * self_of[name] / whole, rel=0.06)
