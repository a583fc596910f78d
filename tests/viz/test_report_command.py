"""`ioflame report`: pages from run directories, one run and several."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from ground.results.files import Files
from ground.results.record import Command
from ground.results.run import Run
from ioflame.analysis.what_differs import differences
from ioflame.cli import main
from ioflame.present.report import write_page_of
from tests.records import SECOND
from tests.viz.compared import COLOURED, fold
from tests.viz.compared import RATES as RATES_OF
from tests.viz.conftest import Opener
from tests.viz.runs import FOLDED, RATES, REPORT, page_of, record, saved, series, view
from viz.page.run_view import RunView
from viz.page.timeline import timeline
from viz.svg.timeline import panels
from viz.tables.categories import wilson


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return saved(tmp_path)


def test_the_page_of_a_run_is_made_from_its_files(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where paths are printed whole, wherever TMPDIR is.
    monkeypatch.chdir("/usr")
    before = {path: path.read_bytes() for path in run.directory.iterdir()}
    assert main(["report", str(run.directory)]) == 0
    page = (run.directory / "report.html").read_text()
    assert str(run.directory / "report.html") in capsys.readouterr().out
    assert {path: path.read_bytes() for path in before} == before
    assert "read syscall 60.00 %" in re.sub(r"</i>", "", page) and "Category by leaf" in page and "svg class" in page
    write_page_of([run.directory], run.directory / "again.html")
    assert (run.directory / "again.html").read_text() == page  # the same files, the same bytes


def shown(run: Run) -> str:
    write_page_of([run.directory], run.directory / "report.html")
    return (run.directory / "report.html").read_text()


def test_a_page_says_what_its_run_lacks(run: Run) -> None:
    run.path(Files.FOLDED).unlink()
    page = shown(run)
    assert "stacks.folded is not in this run" in page and "No flame graph" in page
    # One that was cut short.
    run.path(REPORT).unlink()
    run.record = record(profile=None, metrics={}, windows=[], checks=[], missing=["the perf window"], host={}, tools={})
    run.save()
    page = shown(run)
    for words in ("Missing from this run: the perf window", "carries no checks", "No headline figures", "No time line"):
        assert words in page


def test_categories_of_the_analysis_are_used_and_those_of_other_stacks_are_told(run: Run) -> None:
    assert "not of one fold" not in shown(run)
    row = '{"name":"mine","label":"from the file","weight":1000,"share":100.0,"samples":100}'
    for view_of, weight, rows in (("leaf", 1000, row), ("owner", 5, "")):
        run.path(Files.of_view(view_of)).write_text(
            f'{{"view":"{view_of}","rules_checked":[],"total_weight":{weight},"rows":[{rows}],"other_frames":[]}}'
        )
    page = shown(run)
    assert "from the file" in page
    assert "categories.json holds 5 of weight, the stacks 1,000: they are not of one fold" in page


def test_a_directory_that_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert "run.json cannot be read" in told and f"{tmp_path} is no run directory" in told
    assert "fix: give the directory of a run, such as runs/latest" in told


def test_what_differs_is_found_and_a_command_that_only_one_run_had_is_one_difference() -> None:
    other = record(threads=4, options={"scale": "full", "out": "elsewhere"})
    assert differences([record(), other]) == [("threads", ["1", "4"]), ("option scale", ["smoke", "full"])]
    assert differences([record(), record()]) == []

    def ran(name: str, *flags: str) -> Command:
        return Command(name, ["db_bench", *flags], 1, 0.0, 1.0, "exit code 0")

    read = ran("db_bench readrandom", "--cache_size=1", "--seed=1")
    one = record(commands=[ran("db_bench load", "--num=10", "--key_size=20"), read])
    other = record(commands=[ran("db_bench readrandom", "--cache_size=2", "--seed=2")])
    assert differences([one, other]) == [
        ("command db_bench load", ["ran", "-"]),
        ("setting db_bench readrandom --cache_size", ["1", "2"]),
    ]


@pytest.mark.long
@pytest.mark.needs("chromium")
def test_each_of_two_runs_has_its_own_page_and_state(chromium_page: Opener) -> None:
    page = chromium_page.html(page_of([view(), view(name="run-b", options={"scale": "full"})]))
    assert page.locator("figcaption > span:first-child").first.inner_text() == "What differs"
    name, field = "article:visible .run-name", "article:visible [data-part=search]"
    assert page.locator("article:visible").count() == 1
    page.get_by_role("button", name="run-b").click()
    assert page.locator(name).inner_text() == "run-b"
    page.locator(field).fill("bloom")
    assert "run=1" in page.url
    assert "matched" in page.locator("article:visible [data-part=found]").inner_text()
    page.reload()
    assert (page.locator(name).inner_text(), page.locator(field).input_value()) == ("run-b", "bloom")
    page.get_by_role("button", name="run-a").click()
    assert page.locator(field).input_value() == ""
    assert page.evaluate("document.querySelector('article:not([hidden]) canvas').clientWidth") > 900

    # A run without a profile beside one with.
    page = chromium_page.html(page_of([RunView("bare", record()), view(name="run-b")]))
    assert page.locator(name).inner_text() == "bare"
    page.get_by_role("button", name="run-b").click()
    page.locator(field).fill("bloom")
    assert "matched" in page.locator("article:visible [data-part=found]").inner_text()
    page.get_by_role("button", name="bare").click()
    page.keyboard.press("Escape")
    page.reload()
    assert page.locator(name).inner_text() == "bare"


def test_runs_of_other_settings_are_not_compared_and_those_of_another_version_are() -> None:
    for changes, words in (
        ({"threads": 4}, "threads"),
        ({"workload": "seekrandom"}, "workload"),
        ({"engine": "x"}, "engine"),
    ):
        page = page_of([view(), view(name="run-b", **changes)])
        assert f"Settings differ:</b> {words}" in page and "\u0394" not in page

    def flagged(value: str, engine: str) -> RunView:
        argv = ["db_bench", f"--block_size={value}", "--seed=7", "--db=/x"]
        commands = [Command("db_bench readrandom", argv, 1, 0.0, 1.0, "exit code 0")]
        return view(name=value, commands=commands, tools={"engine": engine})

    page = page_of([flagged("4096", "1"), flagged("8192", "1")])
    assert "Settings differ:</b> setting db_bench readrandom --block_size." in page and "\u0394" not in page
    page = page_of([flagged("4096", "1"), flagged("4096", "2")])
    assert "Settings differ:" not in page and "engine version" in page and "\u0394" in page


def test_wilson() -> None:
    # published: 8 of 10 gives 0.4902 to 0.9433; 0 of 20 gives 0 to 0.1611
    assert wilson(0.8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert wilson(0.0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)
    assert wilson(0.5, 0) == (0.0, 1.0)
    assert wilson(1.0, 5)[1] == 1.0


def test_windows_and_counters_lie_on_the_seconds_of_the_report_where_it_says_when_it_began() -> None:
    plot = timeline(RATES, record().windows, series(), 500 * SECOND)
    assert plot.count('class="window') == 16 and "when it began" not in plot
    # the row of second 14: the report's own QPS, the window that contains it, and the sums of its counters
    reads = RATES[14] // 2
    cells = ["perf", f"{RATES[14]:,}", f"{reads:,}", f"{8e-6 * RATES[14]:.3f}", f"{12e-6 * RATES[14]:.3f}", "80.0"]
    assert '<tr><th scope="row">14</th>' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>" in plot
    # the warm-up is in the report alone
    assert f'<th scope="row">4</th><td>warm-up</td><td>{RATES[4]:,}</td><td>-</td>' in plot

    plot = timeline(RATES, record().windows, [], None)
    assert 'class="window' not in plot and "not drawn" in plot and "kept no counters" in plot
    assert f'<th scope="row">4</th><td>-</td><td>{RATES[4]:,}</td>' in plot
    # with counters of its own, the run needs no report for its time line
    plot = timeline(RATES, record().windows, series(), None)
    assert plot.count('class="window') == 16 and "does not say when it began" in plot
    assert "seconds since the first window began" in plot


def test_of_many_windows_observers_keep_their_names() -> None:
    first = record().windows[0]
    kinds = [kind for name in ("perf", "iolat", "ladder", "offcpu", "runqlat", "pmp") for kind in ("plain", name)]
    some = [
        replace(first, kind=kind, start_ns=(500 + 4 * i) * SECOND, end_ns=(503 + 4 * i) * SECOND)
        for i, kind in enumerate(kinds)
    ]
    plot = timeline([9000] * 200, some, [], 500 * SECOND)
    labels = re.findall(r'<text class="label" x="([\d.]+)" y="(\d+)">(\w+)</text>', plot)
    assert [name for *_, name in labels if name in kinds and name != "plain"] == kinds[1::2]
    for row in {y for _, y, _ in labels}:
        ends = [(float(x), float(x) + 7 * len(name)) for x, y, name in labels if y == row and name != "QPS"]
        assert all(end <= begin for (_, end), (begin, _) in pairwise(ends))
    assert plot.count('class="window observed"') == 6 and "<title>runqlat, 3.0 s</title>" in plot


def test_what_nobody_counted_is_no_point() -> None:
    idle = [replace(w, counters=replace(w.counters, storage_reads=0, queries=None)) for w in series()]
    titles = [panel.title for panel in panels([], idle, 500 * SECOND)]
    assert titles == ["IOPS", "CPU"]  # no reads: no latency, and not one of 0
    assert [point.value for point in panels([], idle, 0)[0].series[0].points] == [0] * 22


def profiled(out: Path, rates: Mapping[str, int], seed: int) -> Run:
    """A run whose profile has these stacks, in samples a second, each of 0.1 us per query."""
    made = Run.create(out, record(metrics={**record().metrics, "cpuPer": 0.1 * sum(rates.values())}))
    made.path(Files.FOLDED).write_bytes(FOLDED)
    fold(rates, random.Random(seed), made.path(Files.PROFILE))
    return made


@pytest.mark.long
@pytest.mark.needs("chromium")
def test_frames_of_two_runs_have_colour_by_the_rule_of_compare(chromium_page: Opener, tmp_path: Path) -> None:
    base = profiled(tmp_path / "a", RATES_OF, 1)
    spins = {**RATES_OF, "main;eng::Db::Get;eng::Spin::Wait": 200}
    for other, is_coloured in (
        (profiled(tmp_path / "b", RATES_OF, 2), False),
        (profiled(tmp_path / "c", spins, 3), True),
    ):
        out = tmp_path / "side.html"
        assert main(["report", str(base.directory), str(other.directory), "-o", str(out)]) == 0
        page = chromium_page.html(out.read_text())
        assert (page.evaluate(COLOURED) > 0) == is_coloured
        words = page.locator(".difference-of").inner_text()
        assert "6.0 % are allowed for what sessions differ by: there are too few to tell" in words
        assert ("No frame differs" in words) != is_coloured
    assert "eng::Spin::Wait" in page.locator(".explained").inner_text()


def test_frames_of_runs_that_cannot_be_compared_are_not(tmp_path: Path) -> None:
    base, other = profiled(tmp_path / "a", RATES_OF, 1), profiled(tmp_path / "b", RATES_OF, 2)
    other.record.threads = 2
    other.save()
    out = tmp_path / "side.html"
    assert main(["report", str(base.directory), str(other.directory), "-o", str(out)]) == 0
    assert "Settings differ:" in out.read_text() and 'class="difference-of"' not in out.read_text()
