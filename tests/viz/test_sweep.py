"""A sweep in the terminal and on its page."""

from __future__ import annotations

from pathlib import Path

import pytest

from ground.errors import UsageError
from ground.results.sweep import Offered, SweepRecord, read_sweep, write_sweep
from ioflame.present.sweep import shown_sweep
from viz.page.sweep import render_sweep_page
from viz.svg.sweep import sweep_plot
from viz.sweep_view import SweepView
from viz.terminal.sweep import render_sweep


def one(rate: float, p99: float, *, overloaded: bool = False, late: float = 0.0) -> Offered:
    latency = {} if overloaded else {"p50": p99 / 4, "p99": p99, "p99_9": 2 * p99}
    return Offered(rate, rate, 1000, 10.0, latency, late=late, cpu=12.5, overloaded=overloaded)


def record(offered: list[Offered], limit: float | None = 1000.0) -> SweepRecord:
    closed = Offered(None, 10_000.0, 100_000, 10.0, {"p50": 90.0, "p99": 200.0, "p99_9": 300.0}, cpu=11.0)
    return SweepRecord("0.1", "2026-11-26T20:00:00+0000", "rocksdb", "10.4.2", "readrandom", 1, "poisson", "p99", limit,
                       closed, offered, "1,000 keys", "ioflame-client <x>")  # fmt: skip


RUNS = [one(2500, 400), one(5000, 800), one(7500, 2600), one(9000, 0, overloaded=True), one(6000, 1100, late=300)]


def test_rates_are_in_order_and_each_says_whether_it_kept_the_limit() -> None:
    view = shown_sweep(record(RUNS))
    rows = [line.split() for line in render_sweep(view, 100).splitlines() if line.strip()[:1].isdigit()]
    told = {row[0]: row[-1] for row in rows if "keys" not in row[1]}
    assert list(told) == ["2,500", "5,000", "6,000", "7,500", "9,000"]
    assert list(told.values()) == ["yes", "yes", "known", "no", "overloaded"]
    assert view.sentence == (
        "5,000 queries a second keep p99 <= 1 ms, 6,000 a second do not; without a rate it answers 10,000 a second"
    )
    assert "the client's own lateness decides" in view.notes[0]


def test_without_a_limit_what_is_not_overloaded_is_kept() -> None:
    view = shown_sweep(record(RUNS[:4], None))
    assert view.sentence.startswith("7,500 queries a second can be answered, 9,000 a second cannot")
    assert list(view.notes) == []


def test_columns_are_those_of_the_rows() -> None:
    view = SweepView(record(RUNS), "words", {})
    assert {len(row) for row in view.rows} == {len(view.heads)} and len(view.rows) == len(RUNS) + 1


def test_where_no_rate_is_kept_the_sentence_says_so() -> None:
    view = shown_sweep(record([one(2500, 4000)]))
    assert view.sentence.startswith("no rate that was tried keeps p99 <= 1 ms: 2,500 a second do not")


def test_the_page_has_the_plot_the_table_and_the_command() -> None:
    page = render_sweep_page(shown_sweep(record(RUNS)))
    assert "5,000 queries a second keep p99 &lt;= 1 ms" in page
    assert "9,000 a second: overloaded" in page and "ioflame-client &lt;x&gt;" in page
    assert page.count("<script") == render_sweep_page(shown_sweep(record(RUNS[:1]))).count("<script")


def test_a_plot_of_rates_that_were_all_overloaded_says_so() -> None:
    assert "every rate was overloaded" in sweep_plot(record([one(9000, 0, overloaded=True)], None), "words")


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_sweep(tmp_path, record(RUNS))
    assert read_sweep(tmp_path) == record(RUNS)
    with pytest.raises(UsageError, match=r"holds no sweep.json"):
        read_sweep(tmp_path / "none")
