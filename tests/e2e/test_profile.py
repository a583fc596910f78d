"""The recorded run, from `make profile` to the files it left: do its numbers add up within their windows?"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from ground.results.categories import read_categories
from ground.results.checks import Verdict
from ground.results.files import Files
from ground.results.record import ANALYSIS, Window
from ioflame.analysis.categories import cpu_profiled
from ioflame.instruments import INSTRUMENTS
from tests.e2e.explained import assert_explained
from tests.ioflame.asked import asked
from tests.recorded_run import ALL, KEYS, Measured, assert_reported
from workloads.registry import engine_named

ROWS = ["libc+k", "checksm", "IBI:Sk", "DBI:Sk", "LRU", "bloom", "BSI", "File", "memtable", "fault", "other"]


def plain_windows(finished: Measured) -> list[Window]:
    return [w for w in finished.record.windows if w.kind == "plain"]


def turns_of(windows: Sequence[Window]) -> list[Window]:
    return [window for window in windows if window.round]


def folded_total(path: Path) -> int:
    return sum(int(line.rpartition(b" ")[2]) for line in path.read_bytes().splitlines())


def test_the_windows_are_in_order_and_none_overlaps(finished: Measured) -> None:
    assert re.fullmatch(r"\d{8}T\d{6}-readrandom-t1", finished.directory.name)
    first, *windows = finished.record.windows
    assert first.kind == "warm-up" and windows[-1].kind == "plain"
    # Between any two that are observed there is a plain one, and each round has a turn of all that take turns.
    assert all((w.kind == "plain") == (place % 2 == 0) for place, w in enumerate(turns_of(windows)))
    # db_bench ends after its seconds: on a host that is busy, rounds are fewer.
    last = max(w.round for w in windows)
    rounds = [[w.kind for w in windows if w.round == number and w.kind != "plain"] for number in range(1, last + 1)]
    in_turns = sorted(name for name in ALL if INSTRUMENTS[name].takes_turns)
    assert rounds and all(sorted(kinds) == in_turns for kinds in rounds)
    assert [w.kind for w in windows if not w.round] == [
        *(kind for name in ALL if name not in in_turns for kind in ("plain", name)), "plain",
    ]  # fmt: skip
    edges = [edge for w in finished.record.windows for edge in (w.start_ns, w.end_ns)]
    assert edges == sorted(edges)
    begun = finished.record.report_start_ns
    assert begun is not None and begun < edges[0]  # the engine reports before anything is measured


def test_the_folded_total_is_perf_reports_to_the_unit(finished: Measured) -> None:
    profile = finished.record.profile
    assert profile is not None
    assert_reported(finished.record)
    assert profile.weight == folded_total(finished.directory / Files.FOLDED)
    assert profile.samples == folded_total(finished.directory / Files.SAMPLE_COUNTS)
    assert profile.weight != profile.samples  # a weight is a period, not a count
    drawn = (finished.directory / Files.FLAMEGRAPH).read_text()
    assert f"{profile.weight:,} {profile.unit}" in drawn and f"n = {profile.samples:,} samples" in drawn


def test_the_categories_sum_to_everything(finished: Measured) -> None:
    categories, profile = read_categories(finished.directory), finished.record.profile
    assert profile is not None and [row.name for row in categories.rows] == ROWS
    assert sum(row.weight for row in categories.rows) == profile.weight == categories.total_weight
    assert sum(row.samples or 0 for row in categories.rows) == profile.samples
    assert sum(row.share for row in categories.rows) == pytest.approx(100, abs=1e-9)
    # The parts of the read path that take long enough to be seen however little CPU the window had.
    weights = {row.name: row.weight for row in categories.rows}
    assert all(weights[name] > 0 for name in ("libc+k", "checksm", "IBI:Sk", "DBI:Sk", "LRU")), weights


def test_the_figures_follow_from_the_counters_of_their_windows(finished: Measured) -> None:
    metrics, windows = finished.record.metrics, plain_windows(finished)
    queries = sum(w.counters.queries or 0 for w in windows)
    assert metrics["cpuPer"] == pytest.approx(sum(w.counters.cpu_ns for w in windows) / 1e3 / queries)
    # Reads of a query are its own, those of a second everybody's.
    assert 0 < metrics["qps"] * metrics["readsPerQuery"] <= metrics["iops"] * (1 + 1e-6)
    assert metrics["usPer"] + metrics["syPer"] == pytest.approx(metrics["cpuPer"], rel=1e-6)
    for counted in (w.counters for w in windows):
        # O_DIRECT: every read call asks storage for a block.
        assert counted.process_read_bytes == pytest.approx(counted.read_calls * 8192, rel=0.05)
        assert counted.user_ns + counted.system_ns == counted.cpu_ns > 0


def test_queries_are_those_of_the_engines_report_and_closing_line(finished: Measured) -> None:
    result = finished.record.engine_result
    assert result["found"] == result["reads"] == result["operations"]
    report = (finished.directory / "db_bench.report.csv").read_text(encoding="ascii")
    rates = engine_named("rocksdb").parse_report(report)
    assert 0 <= result["operations"] - sum(rates) <= max(rates)  # the last second has no line
    assert 0 < sum(w.counters.queries or 0 for w in finished.record.windows) <= sum(rates)


def test_the_seconds_add_up_to_their_windows(finished: Measured) -> None:
    series = finished.run.series()
    for kind in ("plain", "perf"):
        parts = [w for w in series if w.kind == kind]
        wholes = [w for w in finished.record.windows if w.kind == kind]
        assert len(parts) >= len(wholes)
        for name in ("storage_reads", "cpu_ns", "read_calls", "voluntary_switches"):
            added = sum(getattr(w.counters, name) for w in parts)
            assert added == sum(getattr(w.counters, name) for w in wholes), name
    interval = finished.record.intervals["qps"]
    assert interval.low <= finished.record.metrics["qps"] <= interval.high


def test_the_commands_and_their_seeds_are_on_record(finished: Measured) -> None:
    commands = {c.name: c for c in finished.record.commands}
    names = ["db_bench load", "db_bench settle", "db_bench readrandom", "perf record (trial)", "perf record"]
    names += ["ebpf iolat", "ebpf ladder", "ebpf offcpu", "ebpf runqlat", "pmp stacksampler", "ebpf requests"]
    names += ["db_bench levelstats"]
    assert sorted(c.name for c in finished.record.commands) == sorted([*names, *[ANALYSIS] * 5])
    # Each recording is folded once.
    folds = [c.argv for c in finished.record.commands if c.name == ANALYSIS and "stackfold" in c.argv[0]]
    assert sorted(Path(argv[-1]).name for argv in folds) == sorted(
        [Files.PERF_DATA, Files.OFF_CPU_DATA, Files.PMP_DATA, Files.REQUEST_STACKS]
    )
    assert commands["db_bench readrandom"].pid == finished.record.pid
    assert commands["db_bench readrandom"].end == "exit code 0"
    for seeds in finished.record.seeds:
        assert f"--seed={seeds.first}" in commands[f"db_bench {seeds.step}"].argv
    assert f"--num={KEYS}" in commands["db_bench readrandom"].argv
    given = finished.record.options
    words = [f"--{name.replace('_', '-')}={given[name]}" for name in ("scale", "num_keys", "db_dir", "duration")]
    assert_explained(finished.record, "--workload=readrandom", *words)


def test_what_the_workload_must_have_kept_is_proved_on_screen_and_page(finished: Measured) -> None:
    proofs = {"LSM tree", "memtable and L0", "levels after", "compaction in the log", "writes while reading"}
    assert {c.name: c.verdict for c in finished.record.checks if c.name in proofs} == dict.fromkeys(proofs, Verdict.OK)
    page, summary = ((finished.directory / name).read_text() for name in (Files.REPORT, Files.SUMMARY))
    assert all(name in page and name in summary for name in proofs)


def _without_commands(screen: str) -> str:
    """Without the command that prints the rest, which is written as it was called: by make, or by a test."""
    return re.sub(r"(more:|what they mean:) .{1,300}? (all|checks)\b", r"\1 \2", " ".join(screen.split()))


def test_a_run_ends_with_a_short_view_and_the_rest_is_a_command_away(
    finished: Measured, capsys: pytest.CaptureFixture[str]
) -> None:
    def show(*words: str) -> str:
        code, printed, err = asked(capsys, "show", finished.directory, *words)
        assert (code, err) == (0, "")
        return printed

    assert "Where the CPU of one query goes" in finished.out and "next:" in finished.out
    assert _without_commands(show()) in _without_commands(finished.out)
    summary = (finished.directory / Files.SUMMARY).read_text()
    assert show("all") == summary and show("windows").rstrip() in summary
    assert json.loads(show("checks", "--json"))["schema"] == finished.record.schema
    for name in ("qps", "iops", "usPer", "syPer", "cpuPer", "reqsz", "coverage", "lost samples", "incomplete stacks"):
        assert name in summary, name
    # Each step says which it is, of those that were planned.
    steps = [
        (int(n), int(of)) for n, of in re.findall(r"[(;] ?step (\d+) of (\d+), \d+ (?:s|min) left\)", finished.err)
    ]
    (whole,) = {of for _, of in steps}
    assert sorted(set(steps)) == [(n, whole) for n in range(1, whole + 1)]
    # The first look came while it ran; the page at the end has no trace of it.
    assert "First look: readrandom, of the first " in finished.err
    assert "everything after the first " not in (finished.directory / Files.REPORT).read_text(encoding="utf-8")
    assert max(len(line) for line in finished.err.splitlines() if line.startswith("[")) < 200

    profile = finished.record.profile
    assert profile is not None
    per_query, per_read = cpu_profiled(finished.record)
    for view in ("owner", "leaf", "parts"):
        assert "us/query" in show(view)
        table = json.loads(show(view, "--json"))
        rows = {row["name"]: row for row in table["rows"]}
        assert sum(row["weight"] for row in rows.values()) == table["total_weight"] == profile.weight
        assert sum(row["us_per_query"] for row in rows.values()) == pytest.approx(per_query)
        assert sum(row["us_per_read"] for row in rows.values()) == pytest.approx(per_read)
    assert rows["read call"]["weight"] > 0
    assert "parts view" in summary and "CPU by parts" in (finished.directory / Files.REPORT).read_text()
