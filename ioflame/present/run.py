"""What a finished run shows: its flame graph, its summary and its page, from what its analysis found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from ground.errors import IoflameError
from ground.results.categories import Categories
from ground.results.checks import Verdict
from ground.results.files import Files
from ground.results.profile import Folded
from ground.results.roles import WRITES_VIEW
from ground.results.run import Run
from ground.system.atomic_files import write_whole
from ground.system.host import describe_host
from ground.text.progress import Reporter
from ioflame.analysis.categories import OPERATIONS_VIEW, cpu_of_all_roles, writing_roles
from ioflame.instruments import INSTRUMENTS
from ioflame.present.parts import Sections, latency, sections_of
from ioflame.stages.rules import rules_of
from ioflame.stages.run import Analysed
from viz.flame.stacks import by_name, stacks_of
from viz.svg.flame_graph import FlamegraphOptions, write_flamegraph
from viz.tables.roles import role_parts_section
from viz.terminal.summary import render_summary
from viz.terminal.table import section_text
from viz.weights import scaled_weight

_OWNER = "owner"
# Columns of the summary.
_WIDTH = 100
# Views with a part of the summary that is made for them.
_OF_THEIR_OWN = (_OWNER, "leaf", WRITES_VIEW, OPERATIONS_VIEW)


def write_pages(run: Run, found: Analysed, reporter: Reporter) -> None:
    """Replaces the flame graphs (`*.svg`), `summary.txt` and `report.html`."""
    from ioflame.present.report import write_page_of  # the modules of pages are loaded where one is written

    categories = found.views.get(_OWNER)
    with reporter.stage("draw the flame graph and the report", step="draw"):
        if found.folded is not None and categories is not None:
            _flame_graph(run, found.folded, categories)
        _observed_flame_graphs(run)
        own = sections_of(run)
        text = summary_text(run, found, own)
        write_whole(run.path(Files.SUMMARY), text.encode("utf-8", "replace"))
        write_page_of([run.directory], run.path(Files.REPORT), own)


def summary_text(run: Run, found: Analysed, own: Sections) -> str:
    """own: what summary and page both have"""
    further = [table for name, table in found.views.items() if name not in _OF_THEIR_OWN]
    roles = writing_roles(found.folded, run.record) if found.folded is not None else {}
    sections = (role_parts_section(roles), *own.found.values(), latency(run))
    parts = [*(section_text(section, _WIDTH) for section in sections), *_observed(run)]
    return render_summary(run.record, found.views.get(_OWNER), found.findings, parts, further=further)


def _observed(run: Run) -> Iterator[str]:
    """What the other instruments have to say; nothing of what cannot be read, which a check of the run says."""
    for instrument in INSTRUMENTS.values():
        if instrument.parts and run.path(instrument.result).exists():
            try:
                yield "\n\n".join(part.text(run, _WIDTH) for part in instrument.parts.values())
            except IoflameError:
                yield ""


def _observed_flame_graphs(run: Run) -> None:
    rules = rules_of(run)
    for instrument in INSTRUMENTS.values():
        if instrument.flame is not None and run.path(instrument.result).exists():
            with suppress(IoflameError):
                instrument.flame.svg(run, rules)


def _flame_graph(run: Run, folded: Folded, categories: Categories) -> None:
    record, profile = run.record, run.record.profile
    assert profile is not None
    failed = [f"{c.name}: {c.value}; {c.means}" for c in record.checks if c.verdict is Verdict.FAILED]
    engine = f"{record.engine} {record.tools.get('engine', '')}".strip()
    options = FlamegraphOptions(
        title=f"{record.workload}, {record.threads} thread{'s' * (record.threads != 1)}, {engine}",
        subtitle=f"{profile.event}, {scaled_weight(profile.weight, profile.unit)} in {profile.samples:,} samples, "
        f"{profile.callgraph} call graphs, "
        f"{describe_host(record.host)}, {record.created}",
        unit=profile.unit,
        warnings=failed,
        categories=[(row.name, row.label) for row in categories.rows],
        us_per_query=cpu_of_all_roles(record),
    )
    write_flamegraph(by_name(stacks_of(folded, _OWNER)), options, run.path(Files.FLAMEGRAPH))
