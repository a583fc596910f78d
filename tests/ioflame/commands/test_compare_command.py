"""Comparisons and runs that are there are read again: figures, verdicts, and what bars one."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from ground.results.comparison import (
    BUILD,
    Arm,
    Block,
    BlockWindow,
    Comparison,
    ComparisonRun,
    Factor,
    Plan,
    Process,
    Session,
)
from ground.results.record import Unobserved
from ground.results.run import Run
from ioflame.analysis.compare.order import session_orders
from ioflame.cli import main
from ioflame.measure.compare.conduct import out_of_time, shortened
from tests.ioflame.commands.test_show import numbers
from tests.records import window
from tests.viz.runs import record


def comparison(directory: Path, of_b: float, sessions: int = 4) -> ComparisonRun:
    """Four blocks a session, ABBA and BAAB; B's CPU per query is A's times `of_b`, all else is noise of 1 %."""
    plan = Plan("frozen", "shared", 1, 0.02, [4, 6, 8, 12, 16], 16, 4, 2.0, 1.0, 2.0)
    arms = [Arm("A", "a", 1), Arm("B", "b", 1)]
    made = Comparison("0", "now", "rocksdb", "readrandom", Factor(BUILD, ["a", "b"]), plan, arms)
    for number in range(sessions):
        session = Session(number + 1, 0.0, whole=True, seconds=60.0)
        for block in range(4):
            order = ["A", "B", "B", "A"] if block % 2 else ["B", "A", "A", "B"]
            windows = []
            for place, arm in enumerate(order):
                noise = 1 + 0.01 * ((7 * number + 5 * block + 3 * place) % 5 - 2) / 2
                cpu = 20_000 * noise * (of_b if arm == "B" else 1)
                queries = 20_000 * (2 - noise)
                windows.append(
                    BlockWindow(arm, place, window("plain", 2.0, queries=queries, cpu_ns=int(cpu * queries)))
                )
            session.blocks.append(Block(order, windows))
        made.sessions.append(session)
    return ComparisonRun.create(directory, made)


@pytest.mark.parametrize(("of_b", "outcome", "code"), [(1.0, "same within 2 %", 0), (1.1, "regressed", 1)])
def test_a_finished_one_is_read_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], of_b: float, outcome: str, code: int
) -> None:
    going = comparison(tmp_path, of_b)
    assert main(["compare", str(going.directory), "--fail-on", "regressed"]) == code
    printed = capsys.readouterr().out
    assert f"(cpuPer) {outcome}" in printed.splitlines()[-1]
    assert main(["compare", str(going.directory), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    known = {round(abs(n), 2) for n in numbers(found)} | {round(abs(100 * (n - 1)), 1) for n in numbers(found)}
    table = [line for line in printed.splitlines() if re.match(r"  [-+=?] \w", line)]
    assert len(table) >= 2
    for line in table:
        for number in re.findall(r"\d+\.\d+", line.partition("]")[0]):
            assert any(abs(float(number) - one) <= 0.051 for one in known), (number, line)


@pytest.mark.parametrize(
    ("seconds", "limit", "blocks"),
    [
        # Of a session as long as planned (12 s, and 4 blocks of 12 s) three more are within the time.
        (60.0, 240.0, 4),
        (60.0, 200.0, 2),
        # It took longer: one block each is left.
        (90.0, 240.0, 1),
        # Not even that.
        (90.0, 120.0, 0),
        (60.0, None, 4),
    ],
)
def test_sessions_are_shorter_where_the_time_is(
    tmp_path: Path, seconds: float, limit: float | None, blocks: int
) -> None:
    made = comparison(tmp_path, 1.0, sessions=1).record
    made.sessions[0].seconds, made.plan.time_limit = seconds, limit
    (order,) = session_orders(["A", "B"], 1, 4, 1)
    assert len(shortened(order, made, 1).blocks) == (blocks or 1)
    assert out_of_time(made) == (blocks == 0)


def test_an_arm_that_is_not_comparable_has_its_figures_and_no_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    going = comparison(tmp_path, 1.5)
    going.record.not_comparable.append("setting --threads differs besides engine build")
    going.save()
    assert main(["compare", str(going.directory)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "not comparable (setting --threads differs besides engine build)"
    assert "+50.0 %" in next(line for line in lines if "CPU/op" in line)


def test_what_did_not_watch_an_arm_is_the_first_line_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    going = comparison(tmp_path, 1.0)
    lost = Unobserved("offcpu", "its programs are refused", "ioflame doctor", True)
    for session in going.record.sessions[:2]:
        made = Run.create(going.directory, record(unobserved=[lost]))
        session.processes.append(Process("B", made.directory.name, 0))
    going.save()
    assert main(["compare", str(going.directory)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "B: offcpu was asked for and did not watch: its programs are refused -> ioflame doctor"
    assert sum("did not watch" in line for line in lines) == 1
    assert main(["compare", str(going.directory), "--table", "tsv"]) == 1
    assert capsys.readouterr().err.splitlines() == lines[:1]


def test_comparisons_of_two_hosts_are_tables_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directories = []
    for host, of_b in (("one", 1.1), ("other", 1.0)):
        going = comparison(tmp_path, of_b)
        going.record.host["host_id"] = host
        going.save()
        directories.append(str(going.directory))
    assert main(["compare", *directories]) == 0
    printed = capsys.readouterr().out
    assert "cpuPer relative to A, on host one" in printed and "cpuPer relative to A, on host other" in printed
    assert "cpuPer, readrandom t1, B against A:" in printed and "1 of 2 hosts" in printed
    assert main(["compare", *directories, "--table", "markdown"]) == 0
    assert "| readrandom t1 | 1.00 | 1.10 [" in capsys.readouterr().out
    assert main(["compare", directories[0], "--table", "tsv"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert {len(line) for line in lines} == {10} and {line[0] for line in lines[1:]} == {"qps", "cpuPer"}


def test_runs_that_are_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metrics = record().metrics
    directories = []
    for number in range(6):
        slower = 1.2 if number >= 3 else 1.0
        tools = {"engine": "7.8.3", "engine_artifact": "b" if number >= 3 else "a"}
        values = {**metrics, "cpuPer": metrics["cpuPer"] * slower * (1 + 0.001 * (number % 3))}
        run = Run.create(tmp_path, record(tools=tools, metrics=values))
        directories.append(str(run.directory))
    assert main(["compare", *directories]) == 0
    printed = capsys.readouterr().out
    assert "differs: engine_artifact: a | a | a | b | b | b" in printed
    assert "(cpuPer) regressed" in printed.splitlines()[-1]
    # One a side: the figures, and no verdict.
    assert main(["compare", directories[0], directories[3]]) == 0
    assert "(cpuPer) undecided (one run a side: another would tell)" in capsys.readouterr().out.splitlines()[-1]
    other = Run.create(tmp_path, replace(record(tools={"engine_artifact": "a"}), threads=4))
    assert main(["compare", directories[0], str(other.directory)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "not comparable (threads differs)"
    # Profiles of different events are shown separately; what the client and the scheduler counted is compared.
    profile = record().profile
    assert profile is not None
    cycles = record(tools={"engine_artifact": "b"}, profile=replace(profile, event="cycles", unit="cycles"))
    assert main(["compare", directories[0], str(Run.create(tmp_path, cycles).directory)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  two instruments: event cpu-clock, cycles; unit ns, cycles: their profiles are shown separately" in lines
    assert "(cpuPer) undecided (one run a side: another would tell)" in lines[-1]
