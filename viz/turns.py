"""The flame graphs of a run, one at a time: where it ran, where it waited, and both by wall clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ioflame.errors import MeasurementError
from ioflame.offcpu import STATES
from viz.flame import flame
from viz.frames import FrameTree, Stack, printable
from viz.markup import hue_places
from viz.observed import IDLE, Observed
from viz.off_panel import STATE_HUES
from viz.packed import pack
from viz.scales import scaled_weight

__all__ = ("graphs",)


def graphs(profile: dict[str, Any] | None, observed: Observed, title: str) -> str:
    """profile: of the CPU, as `flame` takes it. The others are there where the run has their stacks."""
    turns = [("cpu", "on-CPU", profile)]
    # In the order of the on-CPU graph, so that an owner has one colour.
    owners = [(name, label) for name, label in profile["profile"]["categories"]] if profile is not None else []
    if observed.off_stacks:
        turns.append(("off", "off-CPU", _off_cpu(observed, title)))
    if observed.pmp_stacks:
        turns.append(
            ("pmp", "PMP wall clock", _data(observed.pmp_stacks, f"PMP: {title}", None, owners, {"kind": "owner"}))
        )
    found = [(key, name, data) for key, name, data in turns if data is not None]
    if len(found) < 2:
        return flame(found[0][2] if found else None, found[0][0] if found else "cpu")
    buttons = "".join(
        f'<button type="button" data-graph="{key}" aria-pressed="{str(not place).lower()}">{name}</button>'
        for place, (key, name, _) in enumerate(found)
    )
    return f'<div class="turns scripted" role="group" aria-label="whose time the flame graph shows">{buttons}</div>' + (
        "\n".join(flame(data, key, hidden=bool(place)) for place, (key, _, data) in enumerate(found))
    )


def _off_cpu(observed: Observed, title: str) -> dict[str, Any] | None:
    """Without idle threads, which would take all the room, and with what that leaves out; with them where all are."""
    busy = [stack for stack in observed.off_stacks if stack.category != IDLE]
    shown = busy or observed.off_stacks
    more: dict[str, Any] = {"kind": "state", "counted": "stretches"}
    left = sum(stack.weight for stack in observed.off_stacks) - sum(stack.weight for stack in shown)
    if left:
        threads = len({stack.thread for stack in observed.off_stacks if stack.category == IDLE})
        more["note"] = (
            f"Time off the CPU. {scaled_weight(left, 'ns')} of {threads} idle thread{'s' * (threads != 1)} are "
            "not in this graph; the bars and the table of states have them."
        )
    queries = observed.clock.queries if observed.clock is not None else None
    cost = sum(stack.weight for stack in shown) / 1e3 / queries if queries else None
    return _data(shown, f"off-CPU: {title}", cost, _states(shown), more)


def _states(stacks: Sequence[Stack]) -> list[tuple[str, str]]:
    """Those that were seen, in the order in which they have their hues everywhere."""
    labels = {**STATES, IDLE: "threads with little to do"}
    seen = {stack.category for stack in stacks}
    return [(name, label) for name, label in labels.items() if name in seen]


def _hue(name: str, place: int) -> int:
    return -1 if name == IDLE else STATE_HUES.get(name, place)


def _data(
    stacks: Sequence[Stack], title: str, cost: float | None, labels: Sequence[tuple[str, str]], more: dict[str, Any]
) -> dict[str, Any] | None:
    try:
        tree = FrameTree(stacks, tuple(name for name, _ in labels))
    except MeasurementError:
        return None
    return {
        "name": printable(title),
        "title": printable(title),
        "comparable": False,
        "unit": "ns",
        "usPerQuery": cost,
        "hues": [_hue(name, place) for name, place in zip(tree.categories, hue_places(tree.categories), strict=True)],
        "profile": pack(tree, dict(labels)),
        **more,
    }
