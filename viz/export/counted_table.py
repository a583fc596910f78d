"""A count as a table of Markdown, for a pull request or an issue."""

from __future__ import annotations

from viz.counted_view import CountView, figure
from viz.export.relative_tables import markdown_row


def render_count_markdown(view: CountView) -> str:
    """A line an operation: what each arm takes, and the verdict on each but the base."""
    base, *others = view.arms
    heads = ["operation", *view.arms, *(f"{arm} against {base}" for arm in others)]
    rows = [markdown_row(heads), markdown_row(["---", *["---:"] * len(view.arms), *["---"] * len(others)])]
    rows += [markdown_row([one.name, *map(figure, one.instructions), *one.verdicts]) for one in view.operations]
    facts = ", ".join(f"{name} {value}" for name, value in view.facts.items())
    words = " ".join([f"{view.title}; {facts}.", *view.notes, view.unseen])
    return "\n".join([f"**{view.sentence}**", "", *rows, "", words, ""])
