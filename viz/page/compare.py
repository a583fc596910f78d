"""`compare.html`: a comparison of arms as one page that opens from disk, the verdict first.

It follows the rules of `report.html`: one file, no request, a policy that forbids every script but ours. Every number
on it is one of `verdict.json` (what `--json` prints), of `comparison.json` or of the arm's `frames-ARM.json`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from markupsafe import Markup

from ground.results.comparison import Comparison
from ground.results.frame_differences import FrameDifferences
from ground.results.metrics import COMPARED, DECIDING, window_metrics
from ground.results.verdicts import Verdicts
from ground.system.host import describe_host
from ground.text.titles import title_of
from viz.page.counted import every_operation
from viz.page.document import page
from viz.page.frames import frames_compared
from viz.page.rendering import absent, banner, part, plot_figure, render, section_markup, table
from viz.svg.blocks import Dot, blocks_plot
from viz.tables.comparison import changes_of, decisions_table
from viz.tables.counted import NOT_COUNTED, CountView


@dataclass(frozen=True)
class ComparisonView:
    """All that the page shows.

    verdicts: what is said of it, as `verdict.json` has it
    frames:   by arm; an arm without is said to have none
    notes:    what could not be shown, and why
    counted:  instructions of the arms, where they were counted as well
    """

    record: Comparison
    verdicts: Verdicts
    frames: Mapping[str, FrameDifferences] = field(default_factory=dict)
    notes: Sequence[str] = ()
    counted: CountView | None = None


def render_comparison(view: ComparisonView) -> str:
    """The page."""
    record, found = view.record, view.verdicts
    sections = [
        ("Figures", "", "figures", partial(_figures, view)),
        ("Where the difference is", "", "budget", partial(_budgets, view)),
    ]
    for one in found.arms:
        name = "Why, by frame" if len(found.arms) == 1 else f"Why, by frame: {one.arm}"
        sections.append((name, "", f"frames-{one.arm}", partial(_frames, view, one.arm)))
    if view.counted is not None:
        sections.append(("Counted instructions", "which to believe", "counted", partial(_counted, found, view.counted)))
    sections += [
        ("Block by block", "every window", "blocks", partial(_blocks, record)),
        ("What differs", "builds, settings, host", "differs", partial(_differs, record)),
        ("Noise of this host", "what varies, controls, disturbed blocks", "noise", partial(_noise, view)),
    ]
    made = [
        {"name": name, "about": about, "place": place, "content": part(make)} for name, about, place, make in sections
    ]
    kind = "bad" if found.bars else _kind(found)
    title = f"{record.workload}: {', '.join(arm.name for arm in record.arms if not arm.twin_of)}"
    content = render(
        "compare.html", label="comparison", verdict=found.sentence, kind=kind, bars=found.bars,
        notes=[*record.notes, *view.notes], sections=made, about=_about(record, found),
    )  # fmt: skip
    return page(title, content)


def _kind(found: Verdicts) -> str:
    marks = {one.decisions[name].mark for one in found.arms for name in DECIDING if name in one.decisions}
    return "bad" if "-" in marks else "note" if "?" in marks or not marks else "ok"


def _about(record: Comparison, found: Verdicts) -> str:
    plan = record.plan
    return (
        f"{record.engine}, {record.workload}; {record.factor.name}: "
        f"{', '.join(f'{arm.name} = {arm.value}' for arm in record.arms if not arm.twin_of)}. "
        f"{found.sessions} sessions of new processes, {found.blocks} blocks, windows of {plan.window_seconds:g} s, "
        f"schedule: {title_of(plan.schedule)}; seed {plan.seed}; {record.created}."
    )


# ---- figures -------------------------------------------------------------------------------------------------------
def _figures(view: ComparisonView) -> Markup:
    tables = []
    for one in view.verdicts.arms:
        more = (
            f"Ratio: {one.arm} over {one.base}, the mean over sessions of paired blocks; its interval holds with 95 % "
            f"over all looks. {one.base}: the geometric mean over its windows; {one.arm}: that times the ratio. "
            "Marks: - regressed, + improved, = same within delta, ? undecided or barred. "
            + "; ".join(f"{name}: {COMPARED[name].legend}" for name in one.decisions if name in COMPARED)
        )
        tables.append(decisions_table(f"{one.arm} against {one.base}", one.base, one.arm, one.decisions, more))
    return section_markup(tables) or absent("Nothing was measured in whole sessions.")


# ---- blocks --------------------------------------------------------------------------------------------------------
def _dots(record: Comparison, metric: str) -> list[Dot]:
    """Of each window: its figure against the mean of the base's windows of its block, and its place."""
    threads = {arm.name: arm.threads for arm in record.arms}
    dots = []
    number = 0
    for session in record.whole_sessions():
        for block in session.counted():
            figures = [window_metrics([one.window], threads[one.arm]).get(metric) for one in block.windows]
            base = [
                value for one, value in zip(block.windows, figures, strict=True)
                if one.arm == record.base.name and value
            ]  # fmt: skip
            for one, value in zip(block.windows, figures, strict=True):
                if value and base:
                    ratio = value * len(base) / sum(base)
                    dots.append(Dot(title_of(one.arm), session.number, number, one.position, ratio))
            number += 1
    return dots


def _blocks(record: Comparison) -> Markup:
    names = [title_of(arm.name) for arm in record.arms]
    parts = []
    for metric in DECIDING:
        dots = _dots(record, metric)
        if not dots:
            parts.append(absent(f"{metric}: no block has a window of the base with it."))
            continue
        legend = (
            "A dot is a window, against the mean of the base's windows of its block. Left: in the order of time, lines "
            "part the sessions. Right: by the place in the block, whose effect every arm shows."
        )
        hues = list(enumerate(names))
        plot = blocks_plot(dots, names, metric)
        caption = f"{metric}: {COMPARED[metric].legend}"
        parts.append(plot_figure(caption, plot, f"blocks-{metric}.svg", legend, f"blocks by {metric}", hues))
    return Markup("").join(parts)


# ---- why -----------------------------------------------------------------------------------------------------------
def _budgets(view: ComparisonView) -> Markup:
    return section_markup([block for one in view.verdicts.arms for block in changes_of(one)])


def _frames(view: ComparisonView, arm: str) -> Markup:
    found = view.frames.get(arm)
    return frames_compared(found) if found else absent(f"{arm}: no profile of both sides, so no frames to compare.")


def _counted(found: Verdicts, counted: CountView) -> Markup:
    parts = [banner("note", words) for words in found.counted]
    return Markup("").join((*parts, every_operation(counted), absent(f"{NOT_COUNTED} More: counted/report.html.")))


# ---- what differs, noise -------------------------------------------------------------------------------------------
def _differs(record: Comparison) -> Markup:
    # The twin is the base once more; `differing` has a value of each arm but it.
    arms = [arm.name for arm in record.arms if not arm.twin_of]
    besides = record.besides
    rows = [[name, *values] for name, values in besides.items()]
    of_factor = [
        [name.removeprefix("tool "), *values] for name, values in record.differing.items() if name not in besides
    ]
    parts = []
    if rows:
        parts.append(banner("bad" if record.not_comparable else "warn", "Also different:"))
        parts.append(table("Besides the factor", ["what", *arms], rows, "words"))
    else:
        parts.append(banner("ok", f"Nothing differs but the factor, {record.factor.name}."))
    if of_factor:
        parts.append(table("What ran", ["what", *arms], of_factor, "words"))
    host = describe_host(record.host) if record.host else "unknown"
    return Markup("").join((*parts, render("facts.html", items=[("host", host)])))


def _noise(view: ComparisonView) -> Markup:
    rows = []
    for one in view.verdicts.arms:
        for name, decision in one.decisions.items():
            if decision.difference is not None:
                varies = decision.difference.variances
                rows.append(
                    [
                        f"{name}, {one.arm}",
                        *(f"{100 * sd:.2f} %" for sd in (varies.session, varies.block, varies.window)),
                    ]
                )
    parts = []
    if rows:
        legend = "Standard deviations of ln(arm/base): beyond blocks, of one block, of one window."
        parts.append(table("What varies", ("figure", "sessions", "blocks", "windows"), rows, "numbers", legend))
    controls = []
    for one in view.verdicts.arms[:1]:
        for name, twin in one.twin.items():
            if twin.difference is not None:
                found = twin.difference
                controls.append(
                    [f"A/A control of {one.base}: {name}", f"{found.ratio:.3f}", f"[{found.low:.3f}, {found.high:.3f}]"]
                )
        for name, effect in one.position.items():
            controls.append(
                [f"first place in a block: {name}", f"{effect.ratio:.3f}", f"[{effect.low:.3f}, {effect.high:.3f}]"]
            )
    if controls:
        legend = "Ratios that are 1 where nothing differs: a second process of the base, and the place in a block."
        parts.append(table("Controls", ("control", "ratio", "interval"), controls, "numbers", legend))
    if view.verdicts.disturbed:
        disturbed = [[str(place), words] for place, words in enumerate(view.verdicts.disturbed, 1)]
        parts.append(table("Disturbed blocks", ("", "why"), disturbed, "words"))
    return Markup("").join(parts) or absent("No whole session was measured.")
