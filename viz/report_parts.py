"""The parts of a run's report: what ran, what it can be trusted for, and where the CPU went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ioflame.categories import Categories, Category
from ioflame.checks import Check, Verdict, worst
from ioflame.host import describe_host
from ioflame.metrics import LEGEND, MODE_METRIC, cpu_profiled, window_metrics
from ioflame.record import RunRecord, Window
from viz.figures import HEADLINE, WINDOW_COLUMNS, interval_text
from viz.frames import Stack
from viz.intervals import wilson
from viz.markup import copy_tools, figure, hue_class, svg_button, table, text
from viz.observed import Observed
from viz.scales import exact_weight, percentages, scaled_weight

__all__ = ("RunView", "headline", "leaf", "matrix", "owner", "trust", "what_ran", "windows")

# class, sign and word: never told by the colour alone
_LIGHTS = {
    Verdict.OK: ("ok", "\u2713", "ok"),
    Verdict.NOTE: ("note", "\u25cb", "note"),
    Verdict.WARN: ("warn", "\u25b2", "warning"),
    Verdict.FAILED: ("bad", "\u2715", "failed"),
    Verdict.BLOCKED: ("bad", "\u2715", "blocked"),
}
# a cell without weight: a dot to the eye, a word to the ear, a number to a spreadsheet
_NONE = '<td class="heat none" data-copy="0.00"><span aria-hidden="true">\u00b7</span><span class="sr">none</span></td>'
_TO = " \u2013 "
_PLOT = 600  # px, the width of a bar plot
_OVER_SECONDS = (
    "95 %: interval of the share by bootstrap over the seconds of the window; "
    "it does not hold what changes from run to run."
)
_INTERVAL = (
    "95 %: interval of Wilson from the number of samples, taken as independent draws of equal weight; "
    "it does not hold what changes from run to run."
)


@dataclass
class RunView:
    """All that a page shows of one run.

    stacks:   with their owner category, and with threads and objects where known
    leaf_of:  the leaf category of each stack, empty without a leaf view
    rates:    queries of each second, by the engine's report
    series:   the counters second by second
    notes:    what could not be shown, and why
    observed: what observers beside perf left
    """

    name: str
    record: RunRecord
    owner: Categories | None = None
    leaf: Categories | None = None
    stacks: list[Stack] = field(default_factory=list)
    leaf_of: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    rates: list[int] = field(default_factory=list)
    series: list[Window] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    observed: Observed = field(default_factory=Observed)

    @property
    def title(self) -> str:
        record = self.record
        engine = f"{record.engine} {record.tools.get('engine', '')}".strip()
        return f"{record.workload}, {record.threads} thread{'s' * (record.threads != 1)}, {engine}"

    @property
    def cpu(self) -> tuple[float | None, float | None]:
        """CPU us per query and per storage read that the weights are a part of."""
        return cpu_profiled(self.record.metrics, self.record.profile.mode if self.record.profile else "all")


def what_ran(view: RunView) -> str:
    """Workload, build, host, event and unit, as a list of terms."""
    record, profile = view.record, view.record.profile
    build = f"{record.engine} {record.tools.get('engine', '?')}"
    if record.tools.get("engine_assertions") == "yes":
        build += ", assertions on: slower than a release build"
    items = [
        ("workload", f"{record.workload}, {record.threads} thread{'s' * (record.threads != 1)}"),
        ("engine", f"{build}; symbols: {record.tools.get('engine_symbols', 'unknown')}"),
        ("database", record.database.get("description", "unknown")),
        ("device", record.database.get("device", "unknown")),
        ("host", describe_host(record.host) if record.host else "unknown"),
        ("recorded", f"{record.created} by ioflame {record.ioflame}, perf {record.tools.get('perf', '?')}"),
    ]
    if profile is not None:
        scope = "system-wide, folded for the process" if profile.scope == "system" else "of the process"
        items.append(
            (
                "profile",
                f"{profile.event}, weights in {profile.unit}: {scaled_weight(profile.weight, profile.unit)} in "
                f"{profile.samples:,} samples; {profile.frequency} Hz, {scope}, {profile.callgraph} call graphs",
            )
        )
        items += [("", reason) for reason in profile.why]
    rows = "".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in items)
    return f'<dl class="facts">{rows}</dl>'


def headline(view: RunView) -> str:
    metrics, intervals = view.record.metrics, view.record.intervals

    def scatter(name: str, form: str) -> str:
        found = intervals.get(name)
        return "" if found is None else f"<span>{text(interval_text(form, found, _TO))}</span>"

    tiles = "".join(
        f'<div class="tile"><dt>{text(name)}</dt><dd><b>{text(form.format(metrics[name]))}</b>{scatter(name, form)}'
        f"<small>{text(LEGEND[name])}</small></dd></div>"
        for name, form in HEADLINE
        if name in metrics
    )
    if not tiles:
        return '<p class="absent">No headline figures: no plain window has the engine\'s own count of queries.</p>'
    note = "From the plain windows, with nothing attached."
    if any(name in intervals for name, _ in HEADLINE):
        note += " Below a figure its 95 % interval, by bootstrap over the seconds of these windows."
    return f'<dl class="tiles">{tiles}</dl><p class="legend-note">{note}</p>'


def trust(view: RunView) -> str:
    """Every check of the record as a light with its value and what follows; the gravest first."""
    checks = view.record.checks
    order = list(_LIGHTS)
    rows = []
    for check in sorted(checks, key=lambda c: -order.index(c.verdict)):
        kind, sign, word = _LIGHTS[check.verdict]
        follows = "; ".join(part for part in (check.means, f"to mend: {check.mend}" if check.mend else "") if part)
        rows.append(
            [
                f'<span class="light {kind}"><i aria-hidden="true">{sign}</i>{word}</span> {text(check.name)}',
                text(check.value),
                text(follows) or '<span class="quiet">nothing</span>',
            ]
        )
    missing = "".join(f'<p class="banner bad">Missing from this run: {text(what)}</p>' for what in view.record.missing)
    notes = "".join(f'<p class="banner warn">{text(note)}</p>' for note in view.notes)
    if not checks:
        return f'{missing}{notes}<p class="banner warn">This run carries no checks: nothing in it is confirmed.</p>'
    return missing + notes + _banner(checks) + figure(
        "Checks", table(["check", "value", "what follows"], rows, "words")
    )  # fmt: skip


def _banner(checks: Sequence[Check]) -> str:
    counts = {verdict: sum(check.verdict is verdict for check in checks) for verdict in Verdict}
    told = ", ".join(_counted(counts[v], v) for v in reversed(list(_LIGHTS)) if counts[v])
    gravest = worst(checks)
    words = {
        Verdict.OK: "Every check passed",
        Verdict.NOTE: "Every check passed; some change how the numbers read",
        Verdict.WARN: "Usable; read the warnings first",
        Verdict.FAILED: "Do not use this run: a check failed",
        Verdict.BLOCKED: "Do not use this run",
    }[gravest]
    kind, sign, _ = _LIGHTS[gravest]
    return f'<p class="banner {kind}"><i aria-hidden="true">{sign}</i> <b>{words}.</b> {told}.</p>'


def _counted(count: int, verdict: Verdict) -> str:
    plural = count > 1 and verdict in (Verdict.NOTE, Verdict.WARN)
    return f"{count} {_LIGHTS[verdict][2]}{'s' * plural}"


def owner(view: RunView, hues: Sequence[int]) -> str:
    """Bars and table of the owner view."""
    if view.owner is None:
        return '<p class="absent">No owner view: this run has no categories.</p>'
    legend = (
        f"Owner view: the first known frame from the root owns all below it. Rules checked with "
        f"{text(', '.join(view.owner.rules_checked))}. {_cost_legend(view)} {_interval_legend(view.owner)} "
        "Click a row to see only its stacks."
    )
    return _view(view, view.owner, "owner", legend, hues, ordered=False)


def leaf(view: RunView) -> str:
    """Bars and table of the leaf view; categories without weight are named below."""
    if view.leaf is None:
        return '<p class="absent">No leaf view: the stacks could not be sorted by what ran at the bottom.</p>'
    empty = [row.name for row in view.leaf.rows if not row.weight]
    legend = "Leaf view: what the CPU was doing at the bottom of the stack, heaviest first. " + _interval_legend(
        view.leaf
    )
    if empty:
        legend += f" Without weight: {text(', '.join(empty))}."
    return _view(view, view.leaf, "leaf", legend, [], ordered=True)


def _cost_legend(view: RunView) -> str:
    if view.cpu[0] is None or view.record.profile is None:
        return "Costs are not shown: the plain windows have no CPU per query."
    metric = MODE_METRIC[view.record.profile.mode]
    return f"us/query and us/read: share of weight in the perf window x {metric} of the plain windows."


def _view(view: RunView, categories: Categories, kind: str, legend: str, hues: Sequence[int], *, ordered: bool) -> str:
    shares = percentages([row.weight for row in categories.rows])
    counted = [row.samples for row in categories.rows]
    n = sum(count or 0 for count in counted) if all(count is not None for count in counted) else 0
    per_query, per_read = view.cpu
    places = [(place, row) for place, row in enumerate(categories.rows) if row.weight or not ordered]
    if ordered:
        places.sort(key=lambda entry: (-entry[1].weight, entry[0]))
    rows, bars = [], []
    for place, row in places:
        share = row.weight / categories.total_weight if categories.total_weight else 0.0
        low, high = _interval(row, share, n)
        hue = f'<i class="swatch {hue_class(hues[place])}"></i>' if hues else ""
        rows.append(
            [
                f'<button type="button" class="pick" data-{kind}="{place}" aria-pressed="false">'
                f"{hue}{text(row.name)}</button>",
                shares[place],
                f"{100 * low:.2f} \u2013 {100 * high:.2f}" if n else "-",
                _us(share, per_query),
                f"{_us(low, per_query)} \u2013 {_us(high, per_query)}" if n and per_query is not None else "-",
                _us(share, per_read),
                "-" if row.samples is None else f"{row.samples:,}",
                text(row.label),
            ]
        )
        bars.append(_Bar(row.name, shares[place], share, low, high, hue_class(hues[place]) if hues else "h0"))
    whole = 1.0 if categories.total_weight else 0.0
    n_all = f"{n:,}" if n else "-"
    rows.append(["all", f"{100 * whole:.2f}", "", _us(whole, per_query), "", _us(whole, per_read), n_all, ""])
    unit = view.record.profile.unit if view.record.profile else "weight"
    heads = [kind, f"% of {text(unit)}", "95 %", "us/query", "95 %", "us/read", "n", "what it is"]
    plot = _bars(bars, n, per_query, f"{kind} view: share of {unit}")
    return (
        '<div class="pair">'
        + figure(f"CPU by {kind}, share with its 95 % interval", plot, tools=svg_button(f"{kind}.svg"))
        + figure(f"CPU by {kind}", table(heads, rows, "numbers noted"), legend, copy_tools())
        + "</div>"
    )


def _interval(row: Category, share: float, n: int) -> tuple[float, float]:
    """Of the share: over the seconds of the window where the run has them, by the number of samples otherwise."""
    if row.interval is None:
        return wilson(share, n)
    return row.interval.low / 100, row.interval.high / 100


def _interval_legend(categories: Categories) -> str:
    return _OVER_SECONDS if any(row.interval is not None for row in categories.rows) else _INTERVAL


def _us(share: float, cost: float | None) -> str:
    return "-" if cost is None else f"{share * cost:.3f}"


@dataclass(frozen=True, slots=True)
class _Bar:
    """A bar of a plot: printed is its share in percent as the table prints it."""

    name: str
    printed: str
    share: float
    low: float
    high: float
    hue: str


def _bars(bars: Sequence[_Bar], n: int, cost: float | None, words: str) -> str:
    left, right, row_height = 96, 130, 24
    wide = _PLOT - left - right
    most = max([bar.high if n else bar.share for bar in bars] or [1.0]) or 1.0
    lines = []
    for index, bar in enumerate(bars):
        y = index * row_height + 4
        lines.append(
            f'<text class="label end" x="{left - 8}" y="{y + 13}">{text(bar.name[:16])}</text>'
            f'<rect class="{bar.hue}" x="{left}" y="{y}" width="{wide * bar.share / most:.1f}" height="17"/>'
        )
        if n:
            a, b = left + wide * bar.low / most, left + wide * bar.high / most
            lines.append(f'<path class="whisker" d="M{a:.1f} {y + 8.5}H{b:.1f}M{a:.1f} {y + 4}v9M{b:.1f} {y + 4}v9"/>')
        figures = f"{bar.printed} %" + ("" if cost is None else f", {bar.share * cost:.2f} us")
        edge = left + wide * (bar.high if n else bar.share) / most + 7
        lines.append(f'<text class="label" x="{edge:.1f}" y="{y + 13}">{figures}</text>')
    height = len(bars) * row_height + 8
    told = "; ".join(f"{bar.name} {bar.printed} %" for bar in bars)
    return (
        f'<svg class="plot" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_PLOT} {height}" role="img"'
        f' aria-label="{text(words)}: {text(told)}"><rect class="page" width="{_PLOT}" height="{height}"/>'
        f"{''.join(lines)}</svg>"
    )


def matrix(view: RunView) -> str:
    """Owner against leaf as a heat map of shares; each cell filters the flame graph."""
    if view.owner is None or view.leaf is None or not view.leaf_of:
        return '<p class="absent">No matrix: it needs both views of every stack.</p>'
    weights: dict[tuple[str, str], int] = {}
    for stack in view.stacks:
        key = (stack.category, view.leaf_of.get(stack.frames, "other"))
        weights[key] = weights.get(key, 0) + stack.weight
    total = sum(weights.values())
    if not total:
        return '<p class="absent">No matrix: there is no weight.</p>'
    owners = [(place, row) for place, row in enumerate(view.owner.rows) if row.weight]
    leaves = [(place, row) for place, row in enumerate(view.leaf.rows) if row.weight]
    leaves.sort(key=lambda entry: -entry[1].weight)
    most = max(weights.values())
    leaf_shares = percentages([row.weight for row in view.leaf.rows])
    owner_shares = percentages([row.weight for row in view.owner.rows])
    lines = []
    for leaf_place, row in leaves:
        cells = [f'<th scope="row">{text(row.name)}</th>']
        for owner_place, column in owners:
            weight = weights.get((column.name, row.name), 0)
            if not weight:
                cells.append(_NONE)
                continue
            heat = (weight / most) ** 0.5  # by area, so that a cell of 1 % beside one of 50 % can be seen
            cells.append(
                f'<td class="heat" style="--heat-of:{heat:.3f}"><button type="button" data-owner="{owner_place}"'
                f' data-leaf="{leaf_place}" aria-pressed="false" title="{text(column.name)}, {text(row.name)}: '
                f'{text(exact_weight(weight, view.record.profile.unit if view.record.profile else ""))}">'
                f"{100 * weight / total:.2f}</button></td>"
            )
        cells.append(f"<td>{leaf_shares[leaf_place]}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    heads = "".join(f'<th scope="col">{text(row.name)}</th>' for _, row in owners)
    foot = "".join(f"<td>{owner_shares[place]}</td>" for place, _ in owners)
    return figure(
        "Owner by leaf, % of all",
        '<div class="scroll" tabindex="0" role="group" aria-label="owner by leaf"><table class="numbers matrix">'
        f'<thead><tr><th scope="col">leaf \\ owner</th>{heads}<th scope="col">all</th></tr></thead><tbody>'
        f'{"".join(lines)}<tr><th scope="row">all</th>{foot}<td>100.00</td></tr></tbody></table></div>',
        "What ran at the bottom (rows), on whose behalf (columns). Colour by the square root of the share. "
        "Cells are rounded each; the sums are rounded so that they add up to 100. A cell filters the flame graph.",
        copy_tools(svg_button("owner-by-leaf.svg")),
    )


def windows(view: RunView) -> str:
    """The windows of the run, one a row."""
    rows = []
    for window in view.record.windows:
        metrics = window_metrics([window], view.record.threads)
        cells = [form.format(metrics[name]) if name in metrics else "-" for name, form in WINDOW_COLUMNS]
        rows.append([text(window.kind), f"{window.seconds:.1f}", *cells, text(window.note)])
    if not rows:
        return '<p class="absent">This run has no windows.</p>'
    heads = ["window", "seconds", *(name for name, _ in WINDOW_COLUMNS), "how it ended"]
    legend = "; ".join(f"{name}: {text(LEGEND[name])}" for name, _ in WINDOW_COLUMNS)
    return figure("Windows", table(heads, rows, "numbers noted"), legend) + _observers(view.record)


def _observers(record: RunRecord) -> str:
    """What each observer cost, and those that did not watch."""
    told = ""
    if record.costs:
        rows = [
            [
                text(cost.kind),
                f"{100 * (ratio.estimate - 1):+.1f} %",
                f"{100 * (ratio.low - 1):+.1f} to {100 * (ratio.high - 1):+.1f}",
                str(ratio.n),
            ]
            for cost in record.costs
            for ratio in [cost.qps_ratio]
        ]
        legend = (
            "QPS in the observer's window against the plain windows beside it; 95 %: interval over their n seconds."
        )
        told += figure("What observers cost", table(["observer", "QPS", "95 %", "n"], rows, "numbers"), legend)
    if record.unobserved:
        rows = [[text(lost.kind), text(lost.why), text(lost.mend) or "-"] for lost in record.unobserved]
        told += figure("Not observed", table(["observer", "why", "to mend"], rows, "words"))
    return told
