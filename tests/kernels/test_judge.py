"""What is said of a guest's window: works, refused, wrong, not run."""

from __future__ import annotations

from pathlib import Path

import pytest

from ground.system.atomic_files import read_toml
from tests.kernels.judge import CHECKS, Outcome, against_needs, judged
from tests.places import ROOT

_OFF = """
{"backend": "co-re", "pid": 7, "start_ns": 0, "end_ns": 14000000000, "process_ended_ns": null, "waker": false,
"states": {"sleep": {"ns": SLEPT, "count": 1}}, "stacks": {"different": 1, "cut": 0, "lost_ns": 0, "before_ns": 0},
"threads": [{"tid": 7, "comm": "sleeper", "start_ns": 0, "end_ns": 14000000000, "started": false, "ended": false,
"ran_ns": 3000000, "cpu_ns": 3000000, "off_ns": {"sleep": SLEPT}, "voluntary": 1, "involuntary": 0}],
"losses": {}, "kernel_symbols": true}"""


def _left(folder: Path, code: int, said: str = "", result: str = "") -> Path:
    (folder / "window.code").write_text(f"{code}\n")
    (folder / "window.err").write_text(said)
    (folder / "window.json").write_text(result)
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


@pytest.mark.parametrize(("slept", "outcome"), [(13_990_000_000, Outcome.WORKS), (5_133_800_000, Outcome.WRONG)])
def test_a_sleeper_whose_sleep_is_missing_is_wrong(tmp_path: Path, slept: int, outcome: Outcome) -> None:
    left = _left(tmp_path, 0, result=_OFF.replace("SLEPT", str(slept)))
    found = judged("offcpu", "sleeper", left)
    assert found.outcome is outcome, found.words


def test_each_window_has_a_judge_and_a_load() -> None:
    told = read_toml(ROOT / "tests" / "kernels" / "kernels.toml")
    assert {one["words"].split()[0] for one in told["window"]} == CHECKS.keys()
    assert {one["load"] for one in told["window"]} == told["load"].keys()
    names = [one["name"] for one in told["window"]]
    assert len(set(names)) == len(names)
