"""How a sweep is shown: on the screen, and as a page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ground.results.files import Files
from ground.results.sweep import Offered, SweepRecord
from ioflame.analysis.knee import Kept, kept, knee_of
from viz.page.document import write_page
from viz.page.sweep import render_sweep_page
from viz.tables.sweep import SweepView


def shown_sweep(record: SweepRecord) -> SweepView:
    told = {one.rate: _told(one, kept(one, record.percentile, record.limit_us)) for one in record.offered if one.rate}
    unknown = [one for one in record.offered if kept(one, record.percentile, record.limit_us) is Kept.UNKNOWN]
    late = (
        f"At {len(unknown)} rate(s) the client's own lateness decides whether the limit was kept: other work on this "
        "host delays it. Such a rate counts as one that was too high."
    )
    view = SweepView(record, "", told, [late] if unknown else [])
    return replace(view, sentence=_sentence(record, view.limit))


def _told(one: Offered, found: Kept) -> str:
    return "overloaded" if one.overloaded else found.value


def _sentence(record: SweepRecord, limit: str) -> str:
    knee = knee_of(record.offered, record.percentile, record.limit_us)
    closed = f"without a rate it answers {record.closed.per_second:,.0f} a second"
    held, missed = (f"{one.rate:,.0f}" if one is not None else "" for one in (knee.kept, knee.missed))
    if record.limit_us is None:
        told = f"{missed} a second cannot" if missed else "no higher rate was tried"
        return f"{held or 'none of the rates'} queries a second can be answered, {told}; {closed}"
    told = f"{missed} a second do not" if missed else "no higher rate was tried"
    if not held:
        return f"no rate that was tried keeps {limit}: {told}; {closed}"
    return f"{held} queries a second keep {limit}, {told}; {closed}"


def write_sweep_page(view: SweepView, directory: Path) -> Path:
    out = directory / Files.REPORT
    write_page(render_sweep_page(view), out)
    return out
