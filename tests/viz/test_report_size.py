"""100,000 frames with all data kept: the page stays small and its figures exact. How fast it is: `make bench`."""

from __future__ import annotations

import pytest

from tests.bench.report_page import FRAMES, LARGEST_MB, synthetic, with_details
from tests.viz.conftest import Opener
from tests.viz.samples import matched, percent, total
from viz.flame.tree import FrameTree
from viz.page.report import render_stacks


@pytest.mark.long
@pytest.mark.needs("chromium")
def test_100_000_frames(chromium_page: Opener) -> None:
    some = with_details(synthetic())
    assert len(FrameTree(some)) >= FRAMES
    text = render_stacks(some, "big", "ns")
    assert len(text.encode()) < LARGEST_MB * 1e6
    page = chromium_page.html(text)
    assert page.evaluate("ioflameRuns[0].profile.count") == len(FrameTree(some))
    page.locator('[data-part="search"]').fill("/Call.*7$/")
    wanted = f"matched {percent(matched(some, 'Call.*7$', flags=0), total(some))} of all"
    assert page.locator('[data-part="found"]').inner_text() == wanted
    page.select_option('[data-part="view"]', "callers")
    assert page.locator('[data-part="found"]').inner_text() == wanted
