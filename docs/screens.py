"""The screens in the documentation, made of recorded results by the code as it is: `python -m docs.screens`.

`docs/recorded/NAME.tar.xz` has what the screens need of a run or study, a few small JSON files, which `keep` packs. A
screen is written between the markers of its name; tests/test_screens.py says which one is stale. docs/refresh.py
records anew what `make docs` measures.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ground.results.categories import views_in
from ground.results.comparison import ComparisonRun
from ground.results.counted import CountRun
from ground.results.findings import read_findings
from ground.results.run import open_run
from ioflame.analysis.fleet import watch_of
from ioflame.present.counted import write_pages
from ioflame.present.parts import categories_in, part_of, screen, sections_of
from ioflame.present.run import summary_text
from ioflame.stages.comparison import verdicts_of
from ioflame.stages.run import Analysed
from viz.columns import folded
from viz.terminal.comparison import comparison_text
from viz.terminal.fleet import render_watch

DOCS = Path(__file__).parent
RECORDED = DOCS / "recorded"
SUMMARY = DOCS / "summary.txt"
WIDTH = 100
# What of a run or study is kept; its samples and pages are not.
_KEPT = (
    "run.json", "findings.json", "categories*.json", "accounts.json", "iolat.json", "ladder.json", "offcpu.json",
    "wallclock.json", "pmp.json", "locks.json", "runqlat.json", "whose.json", "writes.json", "jobs.costs.json",
    "tail.json", "tail.frames.json", "counted.json", "fleet.json", "comparison.json", "s[0-9]*/run.json",
    "s[0-9]*/categories.json",
)  # fmt: skip
# Folders are of whoever recorded, except for those of a system.
_FOLDER = re.compile(r"(?:\.\.\.|(?<![\w./*]))/(?!usr/|proc/|sys/|dev/|lib/|etc/)[\w.+-]+/(?:[\w.+-]+/)*")


@dataclass(frozen=True)
class Screen:
    """A screen of the documentation.

    page:   below the root
    name:   of its markers, `<!-- NAME:begin` and `<!-- NAME:end`
    run:    in docs/recorded
    made:   what the command prints, of the directory
    begins: which of its blocks, which empty lines part, by how their first lines begin; nothing is all of them
    """

    page: str
    name: str
    run: str
    made: Callable[[Path], str]
    begins: Sequence[str] = ()

    def text(self, directory: Path) -> str:
        blocks = self.made(directory).strip("\n").split("\n\n")
        if not self.begins:
            return "\n\n".join(blocks)
        found = [next((one for one in blocks if one.startswith(begin)), f"(no {begin})") for begin in self.begins]
        return "\n\n".join(found)


def _screen(directory: Path) -> str:
    return screen(open_run(directory), "ioflame show runs/latest", WIDTH)


def summary(directory: Path) -> str:
    """What `ioflame show RUN all` prints."""
    run = open_run(directory)
    views = {view: categories_in(run, view) for view in views_in(directory)}
    return summary_text(run, Analysed(None, views, [], read_findings(directory)), sections_of(run))


def _part(name: str) -> Callable[[Path], str]:
    def made(directory: Path) -> str:
        run = open_run(directory)
        return folded(part_of(run, name).text(run, WIDTH), WIDTH)

    return made


def _compared(directory: Path) -> str:
    study = ComparisonRun.open(directory)
    found = replace(verdicts_of(study), disturbed=[])  # a screen by themselves on a busy host
    return f"{comparison_text(study.record, found, WIDTH)}\n\n{folded(found.sentence, WIDTH)}"


def _counted(directory: Path) -> str:
    return write_pages(directory, CountRun.open(directory).record, WIDTH).text


def _fleet(directory: Path) -> str:
    """Of simulated hosts: rows as the store gives them."""
    found = watch_of(json.loads((directory / "fleet.json").read_text(encoding="utf-8")))
    assert found is not None
    return render_watch(found, "10.5", "10.6")


_OF_SCREEN = ("readrandom,", "What was found", "Where the CPU", "Latency from", "Checks")
_AGAINST = "hyper_clock_cache against lru_cache: "
_OF_COMPARISON = (f"{_AGAINST}mean", "A/A control", "Where the change", f"{_AGAINST}queries")

SCREENS = (
    Screen("README.md", "summary", "readrandom", _screen, _OF_SCREEN),
    Screen(
        "docs/usage.md",
        "requests",
        "readrandom",
        _part("requests"),
        ("Requests by what", "Reads by level", "Why requests"),
    ),
    Screen("docs/usage.md", "ladder", "readrandom", _part("ladder"), ("Stages of a query",)),
    Screen("docs/usage.md", "parts", "multireadrandom", _part("ladder"), ("Parts of a query",)),
    Screen("docs/usage.md", "waits", "readrandom", _part("waits"), ("Where the threads wait", "States of the threads")),
    Screen("docs/usage.md", "runqlat", "readrandom", _part("runqlat")),
    Screen("docs/tail.md", "tail", "tail", _part("tail"), ("Slow ", "Where the time of slow")),
    Screen("docs/writes.md", "writes", "overwrite", _part("writepath")),
    Screen("docs/jobs.md", "jobs", "overwrite", _part("jobs")),
    Screen("docs/fleet.md", "fleet", "fleet", _fleet),
    Screen("docs/comparing.md", "comparison", "comparison", _compared, _OF_COMPARISON),
    Screen("docs/counting.md", "count", "count", _counted),
)


def unpacked(name: str, place: Path) -> Path:
    """The recorded run or study of that name, in `place`."""
    directory = place / name
    if not directory.exists():
        with tarfile.open(RECORDED / f"{name}.tar.xz") as packed:
            packed.extractall(place, filter="data")
    return directory


def keep(directory: Path, name: str) -> None:
    """What the screens need of a run or study, as `docs/recorded/NAME.tar.xz`; of paths the last part."""
    with tarfile.open(RECORDED / f"{name}.tar.xz", "w:xz") as packed:
        for file in sorted(file for pattern in _KEPT for file in directory.glob(pattern)):
            text = _FOLDER.sub("/", file.read_text(encoding="utf-8")).encode()
            entry = tarfile.TarInfo(f"{name}/{file.relative_to(directory)}")
            entry.size = len(text)
            packed.addfile(entry, io.BytesIO(text))


def between(page: str, name: str) -> str:
    """What a page has between the markers of that name."""
    found = re.search(_marked(name), page, re.DOTALL)
    if found is None:
        raise ValueError(f"no <!-- {name}:begin")
    return found[2]


def put_in(page: Path, name: str, text: str) -> None:
    """Between the markers of this name in a page of the documentation."""
    whole = page.read_text(encoding="utf-8")
    between(whole, name)
    filled = re.sub(_marked(name), lambda found: f"{found[1]}{text}\n{found[3]}", whole, flags=re.DOTALL)
    page.write_text(filled, encoding="utf-8")


def _marked(name: str) -> str:
    return rf"(<!-- {name}:begin[^\n]*\n)(.*?)\n(<!-- {name}:end -->)"


def block(text: str) -> str:
    return f"```\n{text}\n```"


def write_screens() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for one in SCREENS:
            text = one.text(unpacked(one.run, Path(folder)))
            put_in(DOCS.parent / one.page, one.name, block(text))
        SUMMARY.write_text(summary(unpacked("readrandom", Path(folder))), encoding="utf-8")


if __name__ == "__main__":
    write_screens()
