"""What threads spend their time on: a bar of states for each group of threads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from ground.results.off_cpu import Thread
from ground.results.states import STATES
from ground.text.titles import title_of
from viz.flame.palette import hue_class
from viz.svg.axes import duration
from viz.svg.elements import element, label, plot

ON_CPU = "on-CPU"
# The hues that the off-CPU flame graph gives the states, in their order; grey for what is no wait.
STATE_HUES = {**{name: place for place, name in enumerate(STATES)}, ON_CPU: -1}
_NUMBER = re.compile(r"[-/:_#]?\d+$")
_WIDTH, _LEFT, _RIGHT, _ROW, _CHAR = 1000, 230, 12, 30, 6.4


@dataclass
class ThreadGroup:
    """Threads of one name, busy and idle ones apart; ns by state."""

    name: str
    threads: int = 0
    life_ns: int = 0
    ns: dict[str, int] = field(default_factory=dict)

    def add(self, thread: Thread) -> None:
        self.threads += 1
        self.life_ns += thread.life_ns
        for state, ns in ((ON_CPU, thread.ran_ns), *thread.off_ns.items()):
            self.ns[state] = self.ns.get(state, 0) + ns


def thread_groups(threads: Sequence[Thread]) -> list[ThreadGroup]:
    found: dict[tuple[bool, str], ThreadGroup] = {}
    for thread in threads:
        bare = _NUMBER.sub("", thread.comm) or thread.comm
        key = (thread.is_idle, bare)
        found.setdefault(key, ThreadGroup(f"{bare}, idle" if thread.is_idle else bare)).add(thread)
    return [found[key] for key in sorted(found, key=lambda key: (key[0], -found[key].life_ns))]


def thread_states(groups: Sequence[ThreadGroup]) -> Markup:
    wide = _WIDTH - _LEFT - _RIGHT
    drawn = []
    for place, group in enumerate(groups):
        y = place * _ROW + 4
        whole = group.life_ns or 1
        words = f"{group.name} ({group.threads} thread{'s' * (group.threads != 1)})"
        shown = words if len(words) <= 34 else f"{group.name[:20]}\u2026 ({group.threads})"
        drawn.append(label(shown, _LEFT - 8, y + 15, "label end"))
        left = float(_LEFT)
        for state in (ON_CPU, *STATES):
            ns = group.ns.get(state, 0)
            if not ns:
                continue
            long = wide * ns / whole
            about = "runs on a CPU" if state == ON_CPU else STATES[state]
            hover = f"{title_of(state)}: {100 * ns / whole:.2f} % of the group's time\n{words}\n{about}\n{duration(ns)}"
            drawn.append(
                element(
                    "rect", element("title", hover), class_=f"{hue_class(STATE_HUES[state])} segment",
                    x=left, y=y, width=max(long, 0.3), height=_ROW - 8,
                )
            )  # fmt: skip
            inside = f"{title_of(state)} {100 * ns / whole:.1f} %"
            if long >= len(inside) * _CHAR + 6:
                drawn.append(label(inside, left + long / 2, y + 15, "in mid"))
            left += long
    told = "; ".join(
        f"{group.name}: "
        + ", ".join(f"{title_of(s)} {100 * ns / (group.life_ns or 1):.1f} %" for s, ns in group.ns.items() if ns)
        for group in groups
    )
    return plot(_WIDTH, len(groups) * _ROW + 6, f"states by thread group: {told}", *drawn)
