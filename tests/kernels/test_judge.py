"""What is said of a guest's window: works, refused, wrong, not run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ground.results.off_cpu import StateTotal
from ground.system.atomic_files import read_toml, write_json
from tests.kernels.judge import CHECKS, Outcome, against_needs, judged
from tests.places import ROOT
from tests.viz.observers import off_cpu, thread


def _left(folder: Path, code: int, said: str = "") -> Path:
    (folder / "window.code").write_text(f"{code}\n")
    (folder / "window.err").write_text(said)
    (folder / "window.json").touch()
    return folder / "window"


@pytest.mark.parametrize(
    ("code", "said", "outcome", "words"),
    [
        (3, "this kernel has no event block_io_start\n  meaning: ...", Outcome.REFUSED, "this kernel has no event"),
        (1, "", Outcome.WRONG, "exit code 1: without a word"),
        (124, "", Outcome.WRONG, "exit code 124"),
        (0, "", Outcome.WRONG, "window.json"),
    ],
)
def test_an_exit_code_decides(tmp_path: Path, code: int, said: str, outcome: Outcome, words: str) -> None:
    found = judged("iolat", "reader", _left(tmp_path, code, said))
    assert found.outcome is outcome
    assert words in found.words


def test_a_refusal_that_no_need_foretold_is_wrong(tmp_path: Path) -> None:
    found = judged("iolat", "reader", _left(tmp_path, 3, "the verifier refused it"))
    assert against_needs(found, met=False).outcome is Outcome.REFUSED
    assert against_needs(found, met=True).outcome is Outcome.WRONG


def test_a_guest_that_died_has_windows_that_were_not_run(tmp_path: Path) -> None:
    assert judged("iolat", "reader", tmp_path / "window").outcome is Outcome.NOT_RUN


@pytest.mark.parametrize(("slept_ms", "outcome"), [(999, Outcome.WORKS), (367, Outcome.WRONG)])
def test_a_sleeper_whose_sleep_is_missing_is_wrong(tmp_path: Path, slept_ms: int, outcome: Outcome) -> None:
    """Of a second; it was on the CPU for a millisecond."""
    left, states = _left(tmp_path, 0), {"sleep": StateTotal(slept_ms * 10**6, 1)}
    threads = [thread(7, "sleeper", 1, sleep=slept_ms)]
    write_json(left.with_name("window.json"), replace(off_cpu(), states=states, threads=threads))
    found = judged("offcpu", "sleeper", left)
    assert found.outcome is outcome, found.words


def test_each_window_has_a_judge_and_a_load() -> None:
    told = read_toml(ROOT / "tests" / "kernels" / "kernels.toml")
    assert {one["words"].split()[0] for one in told["window"]} == CHECKS.keys()
    assert {one["load"] for one in told["window"]} == told["load"].keys()
    names = [one["name"] for one in told["window"]]
    assert len(set(names)) == len(names)
