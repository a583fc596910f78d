"""Several runs side by side: what differs between them first, then their figures against those of the base."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ioflame.categories import Categories
from ioflame.checks import Verdict
from ioflame.host import describe_host
from ioflame.metrics import LEGEND
from ioflame.record import ANALYSIS, Command, RunRecord
from viz.figures import HEADLINE, interval_text
from viz.ladder_panel import ladders_compared
from viz.ladder_plot import LadderRow
from viz.markup import figure, table, text
from viz.report_parts import RunView
from viz.scales import percentages

__all__ = ("barriers", "comparison", "differences")

# What two runs must have in common for their figures to be compared (design, honesty rule 2): these, and the settings
# of the engine. Its version need not be: to compare two is why there are two runs.
_MUST_AGREE = ("event", "unit", "workload", "engine", "threads")
_SETTING = "setting "
_NO_SETTING = (
    "--seed",
    "--db",
    "--wal_dir",
    "--report_file",
    "--duration",
    "--pid",
    "--output",
    "--stats",
    "--samples",
)
_OWN = ("directory", "out", "quiet")  # where a run was kept says nothing about it


def differences(records: Sequence[RunRecord]) -> list[tuple[str, list[str]]]:
    """What was asked, built or found that is not the same in all runs: its name, and the value in each.

    A command that only some of them ran, such as the load of a database that the others found, is one row.
    """
    ran = [{command.name for command in _measuring(record)} for record in records]
    in_all = set.intersection(*ran)
    facts = [_facts(record, in_all) for record in records]
    names = list(dict.fromkeys(name for one in facts for name in one))
    rows = [(name, [one.get(name, "-") for one in facts]) for name in names]
    return [(name, values) for name, values in rows if len(set(values)) > 1]


def barriers(views: Sequence[RunView]) -> list[str]:
    """What forbids that the runs be compared: differences in what they must have in common."""
    names = [name for name, _ in differences([view.record for view in views])]
    return [name for name in names if name in _MUST_AGREE or name.startswith(_SETTING)]


def _facts(record: RunRecord, in_all: Collection[str]) -> dict[str, str]:
    """in_all: the commands whose flags can be compared, because every run has them"""
    profile = record.profile
    facts = {
        "event": profile.event if profile else "-",
        "unit": profile.unit if profile else "-",
        "workload": record.workload,
        "engine": record.engine,
        "engine version": record.tools.get("engine", "?"),
        "threads": str(record.threads),
    }
    if profile:
        facts |= {"call graphs": profile.callgraph, "scope": profile.scope, "frequency": f"{profile.frequency} Hz"}
    facts |= {f"option {name}": value for name, value in record.options.items() if name not in _OWN}
    facts |= {f"database {name}": value for name, value in record.database.items() if name not in _OWN}
    facts |= {f"tool {name}": value for name, value in record.tools.items() if name != "engine"}
    facts["host"] = describe_host(record.host) if record.host else "-"
    facts |= {f"host {name}": value for name, value in record.host.items() if name not in ("cpu", "cpus")}
    for command in _measuring(record):
        if command.name not in in_all:
            facts[f"command {command.name}"] = "ran"
            continue
        for word in command.argv[1:]:
            flag, equals, value = word.partition("=")
            if not equals or flag in _NO_SETTING:
                continue
            measured = command.name.endswith(record.workload)
            facts[f"{_SETTING if measured else ''}{command.name} {flag}"] = value
    facts["ioflame"] = record.ioflame
    return facts


def _measuring(record: RunRecord) -> list[Command]:
    """The commands that had a part in what was measured; a run analysed again has others of the rest."""
    return [command for command in record.commands if command.name != ANALYSIS]


def comparison(views: Sequence[RunView]) -> str:
    """The part of the page above the runs."""
    names = [f"{text(view.name)}{' (base)' if not index else ''}" for index, view in enumerate(views)]
    rows = differences([view.record for view in views])
    barred = barriers(views)
    parts = []
    if barred:
        parts.append(
            f'<p class="banner bad"><b>Not to be compared as they stand.</b> These differ: {text(", ".join(barred))}. '
            "Figures are side by side; differences between them are not computed.</p>"
        )
    if rows:
        cells = [[text(name), *map(text, values)] for name, values in rows]
        parts.append(figure("What differs", table(["what", *names], cells, "words")))
    else:
        parts.append('<p class="banner ok">Asked, built and found alike: no setting differs.</p>')
    failed = [view.name for view in views if any(c.verdict is Verdict.FAILED for c in view.record.checks)]
    if failed:
        parts.append(f'<p class="banner bad">A check failed in: {text(", ".join(failed))}</p>')
    parts.append(_headline(views, names, not barred))
    parts.append(_ladders(views, names, not barred))
    for kind, get in _KINDS:
        parts.append(_categories(views, names, kind, get, not barred))
    return (
        '<section aria-labelledby="compare"><h2 id="compare">Side by side</h2>'
        f"{''.join(part for part in parts if part)}</section>"
    )


def _ladders(views: Sequence[RunView], names: Sequence[str], compared: bool) -> str:
    rows = [
        None if view.observed.ladder is None else LadderRow(view.name, view.observed.ladder, view.observed.rx_lat_us)
        for view in views
    ]
    return ladders_compared(rows, names, compared)


_KINDS: tuple[tuple[str, Callable[[RunView], Categories | None]], ...] = (
    ("owner", lambda view: view.owner),
    ("leaf", lambda view: view.leaf),
)
_TO = " \u2013 "
_SCATTER = (
    "95 %: interval of a run's figure by bootstrap over its seconds; it does not hold what changes from run to run."
)
_POINTS = "\u0394 in points. Shares add up to 100: one row's gain is others' loss."
_ONE_RUN = (
    "Differences are between single runs: without repeats of each, a small one says nothing. "
    "Columns with \u0394 are against the base."
)


def _headline(views: Sequence[RunView], names: Sequence[str], compared: bool) -> str:
    rows = []
    scattered = any(view.record.intervals for view in views)
    for name, form in HEADLINE:
        values = [view.record.metrics.get(name) for view in views]
        if all(value is None for value in values):
            continue
        row = [text(name)]
        for index, value in enumerate(values):
            row.append("-" if value is None else text(form.format(value)))
            if scattered:
                found = views[index].record.intervals.get(name)
                row.append("-" if found is None else text(interval_text(form, found, _TO)))
            if index and compared:
                base = values[0]
                row.append("-" if value is None or not base else f"{100 * (value / base - 1):+.1f} %")
        rows.append([*row, text(LEGEND[name])])
    if not rows:
        return ""
    heads = [*_heads("figure", names, compared, "95 %" if scattered else ""), "what it is"]
    legend = " ".join(words for words, told in ((_SCATTER, scattered), (_ONE_RUN, compared)) if told)
    return figure("Plain windows", table(heads, rows, "numbers noted"), legend)


def _heads(first: str, names: Sequence[str], compared: bool, scatter: str = "") -> list[str]:
    heads = [first]
    for index, name in enumerate(names):
        heads += [name, scatter] if scatter else [name]
        if index and compared:
            heads.append("\u0394")
    return heads


def _categories(
    views: Sequence[RunView],
    names: Sequence[str],
    kind: str,
    get: Callable[[RunView], Categories | None],
    compared: bool,
) -> str:
    found = [get(view) for view in views]
    if all(one is None for one in found):
        return ""
    order = list(dict.fromkeys(row.name for one in found if one is not None for row in one.rows))
    weights = [{row.name: row.weight for row in one.rows} if one is not None else {} for one in found]
    # printed as the tables of each run print them: digits that add up to 100
    printed = [dict(zip(weight, percentages(list(weight.values())), strict=True)) for weight in weights]
    parts = []
    for title, costed in ((f"{kind}: % of weight", False), (f"{kind}: us per query", True)):
        rows = []
        for name in order:
            values: list[float | None] = []
            for view, one, weight in zip(views, found, weights, strict=True):
                scale = view.cpu[0] if costed else 100.0
                known = one is not None and one.total_weight and scale is not None and name in weight
                values.append(weight[name] / one.total_weight * scale if known and one and scale else None)
            if not any(values):
                continue
            row = [text(name)]
            for index, value in enumerate(values):
                row.append("-" if value is None else f"{value:.3f}" if costed else printed[index][name])
                if index and compared:
                    base = values[0]
                    row.append("-" if value is None or base is None else f"{value - base:+.3f}" if costed
                               else f"{value - base:+.2f}")  # fmt: skip
            rows.append(row)
        if rows:
            legend = "\u0394 in us per query." if costed else _POINTS
            parts.append(
                figure(title, table(_heads(kind, names, compared), rows, "numbers"), legend if compared else "")
            )
    return "".join(parts)
