"""An experiment made in code, as its page and its summary are fed with it."""

from __future__ import annotations

import math

from ground.results.cells import Heading, Judged, Value
from ground.results.differences import Cell, RelativeTable
from viz.breakdowns import Stacked
from viz.experiment_view import ExperimentView, MadeRun, Spread
from viz.table import of_cells

RUN = "asc.2, old-1-readwhilewriting"
VIEW = ExperimentView(
    title="streams",
    about="what a load in key order hides",
    facts="two CPUs",
    headings=[Heading("w_amp", "GiB written over GiB flushed", 2), Heading("ops/sec", "rows a second", 0)],
    values={
        "asc.1": {"w_amp": Value(1.0, None, None, 1), "ops/sec": Value(math.inf, None, None, 1)},
        "asc.2, old": {"w_amp": Value(4.0, 3.5, 4.5, 5), "ops/sec": None},
    },
    judged=[
        ("one stream is written once", Judged(True, "asc.1 1")),
        ("two streams: 5 to 6", Judged(False, "asc.2 4")),
        ("64 streams: 6 to 7.5", Judged(None, "with fewer than 2,000,000 keys the tree has fewer levels")),
    ],
    published={"asc.2, old": {"w_amp": 4.2}},
    spread=Spread("the quarters of its runs."),
    charted=["w_amp"],
    relative=[
        (
            "byrx",
            RelativeTable(
                "qps", "host", "7.8", ("readww", "overwrite"), ("7.8", "8.0", "9.0"),
                {
                    "readww": {"7.8": Cell(1.0, ""), "8.0": Cell(1.1, "+", 1.05, 1.15), "9.0": Cell(1.2, "?", 0.1, 9)},
                    "overwrite": {"7.8": Cell(1.0, ""), "9.0": Cell(0.9, "-", 0.88, 0.92)},
                },
            ),
        )
    ],
    curves={"byrx": {"readww": {"8.0": 1.3}, "fillseq": {"8.0": 7.0}}},
    stacked=[
        Stacked("of readww", ("LRU", "bloom", "other"), {"7.8": {"LRU": 2.0, "other": 1.0}, "9.0": {"LRU": 4.0}}),
        Stacked("of overwrite", ("LRU", "bloom", "other"), {"7.8": {"bloom": 1.0}}),
    ],
    breakdowns=[of_cells("CPU by role", ("role", "asc.1"), [["reader", "4.20"]])],
    runs=[MadeRun("asc.2, old", "1", "done, 4 s", {"load": "load.log", "readwhilewriting": f"{RUN}/report.html"})],
    builds={"old": {"version": "7.8", "lto": "no"}, "new": {"version": "9.0", "lto": "no"}},
    cannot="100M rows",
)  # fmt: skip
