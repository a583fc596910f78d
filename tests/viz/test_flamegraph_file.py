"""The flame graph as a file: valid, complete, the same each time, readable without scripts."""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from ground.errors import MeasurementError
from tests.viz.samples import CATEGORIES, US_PER_QUERY, VERSION_GET, options, percent, stacks, total
from viz.flame.stacks import Stack, read_folded
from viz.svg.flame_graph import FlamegraphOptions, flamegraph, write_flamegraph

GOLDEN = Path(__file__).parent / "golden"
SVG = "{http://www.w3.org/2000/svg}"


def parse(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text.encode())  # expat: refuses what is not XML


def embedded(text: str) -> dict[str, Any]:
    found = parse(text).find(f"{SVG}script[@class='data']")
    assert found is not None and found.text is not None
    data: dict[str, Any] = json.loads(found.text)
    return data


def titles(text: str) -> list[str]:
    return [frame.findtext(f"{SVG}title", "") for frame in parse(text).iterfind(f".//{SVG}g[@class='f']")]


def unpack(data: dict[str, Any]) -> list[Stack]:
    """The stacks in the embedded columns, decoded here as the script of the page does it."""
    names = [category[0] for category in data["categories"]]
    count = len(data["depth"])
    own = [int(weight) for weight in data["weight"]]
    path: list[int] = []
    paths = []
    for node in range(count):
        del path[data["depth"][node] :]
        if path:
            own[path[-1]] -= int(data["weight"][node])
        path.append(node)
        paths.append(path[1:])
    found = []
    for node in range(count):
        if own[node]:
            frames = tuple(data["names"][data["name"][i]] for i in paths[node])
            category = names[data["category"][node]]
            anchor = -1
            if category != "other":
                anchor = next(d for d, i in enumerate(paths[node]) if names[data["category"][i]] == category)
            found.append(Stack(frames, own[node], None, category, anchor))
    return found


def test_the_embedded_data_gives_back_every_stack() -> None:
    given = {(s.frames, s.category, s.anchor_depth): s.weight for s in stacks()}
    back = {(s.frames, s.category, s.anchor_depth): s.weight for s in unpack(embedded(flamegraph(stacks(), options())))}
    assert back == given


def test_every_drawn_frame_says_its_figures_without_a_script() -> None:
    weight, whole = total(stacks(), VERSION_GET), total(stacks())
    wanted = [
        "rocksdb::Version::Get",
        f"{weight / 1e6:.3f} ms ({weight:,} ns)",
        f"{percent(weight, whole)} of all, other",
        f"{US_PER_QUERY * weight / whole:.3f} us per query",
        f"n = {sum(s.samples or 0 for s in stacks() if s.frames[:5] == VERSION_GET)} samples",
    ]
    assert "\n".join(wanted) in titles(flamegraph(stacks(), options()))


def test_a_narrow_frame_is_not_drawn_but_counted() -> None:
    text = flamegraph(stacks(), options())
    data = embedded(text)
    narrow = [s for s in stacks() if s.frames[-1].startswith("Bloom0")]
    assert not any(title.startswith("Bloom0") for title in titles(text))
    assert {s.frames[-1] for s in narrow} <= set(data["names"])
    left_out = sum(s.weight for s in stacks() if re.fullmatch(r"Bloom\d+", s.frames[-1]))
    share = percent(left_out, total(stacks()))
    assert f"Those narrower than 0.5 px are not: they hold {share} of the weight" in text
    assert "All 19 frames" not in text
    everything = flamegraph(stacks(), options(min_width_px=0))
    assert len(titles(everything)) == len(data["depth"])
    assert f"All {len(data['depth'])} frames are drawn." in everything


def test_the_legend_adds_up_to_100_and_keeps_a_category_without_a_stack() -> None:
    data = embedded(flamegraph(stacks(), options()))
    assert [tuple(category[:2]) for category in data["categories"]] == list(CATEGORIES)
    shares = {name: share for name, _, share in data["categories"]}
    assert sum(round(float(share) * 100) for share in shares.values()) == 10_000
    assert shares["LRU"] == "0.00"
    bloom = sum(s.weight for s in stacks() if s.category == "bloom")
    assert abs(float(shares["bloom"]) - 100 * bloom / total(stacks())) < 0.01


def test_a_category_nobody_announced_is_added() -> None:
    data = embedded(flamegraph([Stack(("c", "f"), 1, 1, "new", 1)], options()))
    assert ["new", "", "100.00"] in data["categories"]


def test_plain_folded_text_is_drawn_as_other() -> None:
    data = embedded(flamegraph(read_folded([b"c;f 1", b"c;g 2"]), FlamegraphOptions("plain", unit="cycles")))
    assert data["categories"] == [["other", "", "100.00"]]
    assert data["samples"] is None
    assert data["weight"] == [3, 3, 1, 2]


def test_weights_beyond_2_to_53_go_as_text() -> None:
    big = 2**60 + 1
    data = embedded(flamegraph([Stack(("c", "f"), big), Stack(("c", "g"), 2)], FlamegraphOptions("big")))
    assert data["weight"] == [str(big + 2), str(big + 2), str(big), "2"]
    assert all(isinstance(w, int) for w in embedded(flamegraph([Stack(("c",), 2**53 - 1)], options()))["weight"])


def test_the_same_stacks_give_the_same_bytes_in_any_order() -> None:
    shuffled = stacks()
    random.Random(3).shuffle(shuffled)
    assert flamegraph(shuffled, options()) == flamegraph(stacks(), options())


def test_warnings_and_subtitle_are_drawn() -> None:
    text = flamegraph(stacks(), options(warnings=["profile differs from perf report"]))
    drawn = [element.text for element in parse(text).iter(f"{SVG}text")]
    assert "profile differs from perf report" in drawn
    assert options().subtitle in drawn


def test_long_texts_are_wrapped_inside_the_drawing() -> None:
    root = parse(flamegraph(stacks(), options(title="t" * 500, subtitle="word " * 200, warnings=["w" * 900])))
    bottom = 0.0
    for element in root.iterfind(f"{SVG}g[@class='static']/{SVG}text"):
        assert len(element.text or "") < 180
        bottom = max(bottom, float(element.get("y", "")))
    top = min(float(rect.get("y", "")) for rect in root.iterfind(f".//{SVG}g[@class='f']/{SVG}rect"))
    assert bottom < top


def test_nothing_in_the_file_names_another_place() -> None:
    text = flamegraph(stacks(), options())
    addresses = set(re.findall(r"https?://[^\s\"'<>]+", text))
    assert addresses == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"}  # namespaces
    assert not re.search(r"@import|url\(|\bfetch\(|XMLHttpRequest|\beval\(|\bhref=", text)


def test_empty_input_is_an_error_and_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="nothing to draw"):
        write_flamegraph([], options(), tmp_path / "graph.svg")
    assert list(tmp_path.iterdir()) == []


def test_a_cost_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        flamegraph(stacks(), options(us_per_query=float("nan")))


def test_golden(tmp_path: Path) -> None:
    """BLESS=1 writes the golden file anew. Style and code are left out: they have tests of their own."""
    few = [
        Stack(("db_bench", "a::B<c::D>::Get", "pread_[k]"), 60, 6, "libc+k", 2),
        Stack(("db_bench", '&<">'), 40, 4),
    ]
    out = tmp_path / "small.svg"
    write_flamegraph(few, options(title="small", warnings=["amber"], categories=CATEGORIES[:2]), out)
    assert list(tmp_path.iterdir()) == [out]
    text = re.sub(r"<style>.*?</style>", "<style/>", out.read_text(encoding="utf-8"), flags=re.DOTALL)
    text = re.sub(r"<script><!\[CDATA\[.*?\]\]></script>", "<script/>", text, flags=re.DOTALL)
    golden = GOLDEN / "small.svg"
    if os.environ.get("BLESS") == "1":
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
