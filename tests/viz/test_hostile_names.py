"""Names come from binaries that anyone may have built: whatever they hold is text, and never runs."""

from __future__ import annotations

from xml.parsers import expat

import pytest

from ground.errors import MeasurementError
from tests.viz.categorised import read_categorised
from tests.viz.conftest import Opener
from tests.viz.xml import xmllint
from viz.flame.stacks import read_folded
from viz.svg.flame_graph import FlamegraphOptions, flamegraph

NAMES = (
    b"<script>window.pwned=1</script>",
    b"</script><script>window.pwned=2</script>",
    b"</title></g></svg><svg onload='window.pwned=3'>",
    b'"><img src=x onerror=window.pwned=4>',
    b"]]><script>window.pwned=5</script><![CDATA[",
    b"<!-- --> <?xml?> <!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]> &e; &amp; &#0;",
    b"'\"`${window.pwned=6}\\u003c\\",
    b"javascript:window.pwned=7",
    b"control \x01\x02\x08\x0b\x1b[31m\x7f",
    b"nul \x00 inside",
    b"invalid \xff\xfe \xed\xa0\x80 \xc0\xaf \xf8",
    "right to left \u202e\u2067\u200f \u05d0\u05d1".encode(),
    "forbidden in XML \ufffe\uffff, astral \U0001f525::\U0001f600::x".encode(),
    "line \u2028 and paragraph \u2029".encode(),
    b"tab\tinside",
    b"",
    b"__proto__",
    b"constructor",
    b"long" * 2500,
)


def hostile() -> str:
    lines = [b"category\t1\t1\t%d\tcomm;%s;inner" % (1000 + i, name) for i, name in enumerate(NAMES)]
    lines.append(b"<b>&\"'\x01\t1\t1\t1000\tcomm;plain")
    given = FlamegraphOptions(
        NAMES[0].decode(),
        unit="<&>\"'",
        subtitle=NAMES[4].decode() + "\x00",
        warnings=[NAMES[1].decode(), NAMES[3].decode()],
        categories=[("category", NAMES[2].decode()), ("other", "\x1b&")],
        us_per_query=1.0,
    )
    return flamegraph(read_categorised(lines), given)


def test_the_file_is_xml() -> None:
    parser = expat.ParserCreate()
    parser.Parse(hostile().encode(), True)


@pytest.mark.needs("chromium")
def test_nothing_runs_whatever_is_done_with_the_names(chromium_page: Opener) -> None:
    page = chromium_page(hostile())
    assert page.locator("script").count() == 2
    assert page.locator("h1").inner_text() == NAMES[0].decode()
    for index in range(page.locator("g.f").count()):
        page.locator("g.f").nth(index).hover()
        card = page.locator(".card").bounding_box()
        assert card is not None and card["x"] >= 0 and card["x"] + card["width"] <= 1280
    page.keyboard.press("/")
    page.keyboard.type("<script>")
    assert page.locator("g.f.match").count() == 3
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert "of view" in page.locator(".found").inner_text()
    page.reload()
    assert page.evaluate("window.pwned") is None
    assert page.locator("img, script, svg svg").count() == 2


@pytest.mark.needs("xmllint")
def test_the_file_is_xml_to_xmllint() -> None:
    xmllint(hostile())


BIG = 2**60 + 1
EXTREMES = {
    "deep": [b";".join(b"f<%d>" % i for i in range(5000)) + b" 7", b"other 3"],
    "heavy": [b"a;b %d" % BIG, b"a;c 2"],
    "long": [b"a;" + b"n" * 10_000 + b" 1"],
    "one": [b"a 1"],
}


@pytest.mark.needs("xmllint")
@pytest.mark.parametrize("kind", EXTREMES)
def test_extremes_are_xml_and_whole(kind: str) -> None:
    stacks = read_folded(EXTREMES[kind])
    drawn = flamegraph(stacks, FlamegraphOptions(kind))
    xmllint(drawn)
    total = sum(stack.weight for stack in stacks)
    assert f"({total:,} ns)" in drawn  # exact, also beyond 2^53


def test_an_empty_profile_is_refused_and_not_drawn() -> None:
    for lines in ([], [b"a;b 0"]):
        with pytest.raises(MeasurementError, match="nothing to draw"):
            flamegraph(read_folded(lines), FlamegraphOptions("empty"))


@pytest.mark.needs("chromium")
def test_nothing_runs_without_our_script_either(chromium_page: Opener) -> None:
    page = chromium_page(hostile(), scripts=False)
    assert page.locator("img, svg svg").count() == 0
    assert page.locator("script").count() == 2


@pytest.mark.needs("chromium")
def test_a_stack_of_5000_frames(chromium_page: Opener) -> None:
    deep = b";".join(b"recursive<%d>" % i for i in range(5000))
    page = chromium_page(flamegraph(read_folded([deep + b" 7", b"other 3"]), FlamegraphOptions("deep")))
    assert page.locator("g.f").count() == 5002
    # the root is in sight at once, and the heading too
    assert page.locator('g.f[aria-label^="all,"]').bounding_box()["y"] < 900  # type: ignore[index]
    assert page.locator("h1").bounding_box()["y"] >= 0  # type: ignore[index]
    page.keyboard.press("/")
    page.keyboard.type("<4999>")
    assert page.locator(".found").inner_text() == "matched 70.00 % of all"
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert page.locator(".zoomed").inner_text() == "view: recursive<4999>, 70.00 % of all"
