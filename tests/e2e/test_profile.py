"""One real profile, from `make profile` to the files it leaves: are its numbers what they say?"""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree

import pytest

from collectors.schedule import LEAST_SECONDS
from ground.results.categories import read_categories
from ground.results.checks import Verdict
from ground.results.files import Files
from ground.results.metrics import cpu_profiled, window_metrics
from ground.results.record import ANALYSIS, Window
from ground.results.run import Run, open_run
from tests.conftest import Ioflame
from tests.e2e.conftest import ALL, KEYS, SECONDS, Finished
from viz.terminal.summary import SCREEN

# The run whose figures are looked at has the machine for itself.
pytestmark = [pytest.mark.alone, pytest.mark.needs("perf", "db_bench", "co-re")]


def windows(finished: Finished, kind: str) -> list[Window]:
    return [w for w in finished.record.windows if w.kind == kind]


def folded_total(path: Path) -> int:
    return sum(int(line.rpartition(b" ")[2]) for line in path.read_bytes().splitlines())


def test_smoke_ends_with_every_file_in_place(finished: Finished) -> None:
    assert finished.code == 0
    names = {
        Files.RECORD,
        Files.PERF_DATA,
        "db_bench.log",
        Files.FOLDED,
        Files.CATEGORIES,
        Files.SUMMARY,
        Files.PPROF,
    }
    assert names | {Files.FLAMEGRAPH, Files.REPORT} <= {path.name for path in finished.directory.iterdir()}
    assert re.fullmatch(r"\d{8}T\d{6}-readrandom-t1", finished.directory.name)


def test_the_windows_are_in_order_and_none_overlaps(finished: Finished) -> None:
    kinds = [w.kind for w in finished.record.windows]
    assert kinds == ["warm-up", "plain", *(kind for name in ALL for kind in (name, "plain"))]
    edges = [edge for w in finished.record.windows for edge in (w.start_ns, w.end_ns)]
    assert edges == sorted(edges)
    begun = finished.record.report_start_ns
    assert begun is not None and begun < edges[0]  # the engine reports before anything is measured
    between = finished.record.windows[1:-1]
    assert all(SECONDS <= w.seconds < SECONDS + 0.5 for w in between if w.kind == "plain")
    # To the nearest line of the report, which on a busy host comes late.
    assert all(SECONDS - 0.5 <= w.seconds < SECONDS + 2 for w in between if w.kind != "plain")
    # The last one has what the warm-up and perf did not take of the engine's time.
    assert finished.record.windows[-1].seconds >= LEAST_SECONDS


def test_the_folded_total_is_perf_reports_to_the_unit(finished: Finished) -> None:
    profile = finished.record.profile
    assert profile is not None
    assert profile.weight == profile.report_weight == folded_total(finished.directory / Files.FOLDED) > 0
    assert profile.samples == folded_total(finished.directory / Files.SAMPLE_COUNTS)
    assert profile.weight != profile.samples  # a weight is a period, not a count
    assert not [c for c in finished.record.checks if c.verdict in (Verdict.FAILED, Verdict.BLOCKED)]


def test_the_categories_sum_to_everything_and_io_is_the_largest(finished: Finished) -> None:
    categories = read_categories(finished.directory)
    profile = finished.record.profile
    assert profile is not None
    assert sum(row.weight for row in categories.rows) == profile.weight == categories.total_weight
    assert sum(row.samples or 0 for row in categories.rows) == profile.samples
    assert sum(row.share for row in categories.rows) == pytest.approx(100, abs=1e-9)
    # Of those with a name: of Debian 13's RocksDB 9.10 as much is in none, where a read takes 30 us.
    named = [row for row in categories.rows if row.name != "other"]
    assert max(named, key=lambda row: row.weight).name == "libc+k"
    names = [row.name for row in categories.rows]
    assert names == ["libc+k", "checksm", "IBI:Sk", "DBI:Sk", "LRU", "bloom", "BSI", "File", "fault", "other"]
    # Every part of the read path is really there: a rule that matched nothing would be stale. Only the search for the
    # file may go unseen: on one level of a few files it is a handful of comparisons.
    assert {row.name for row in categories.rows if row.weight == 0} <= {"File", "fault"}


def test_the_printed_shares_sum_to_exactly_100_and_us_to_cpu_per_query(finished: Finished) -> None:
    summary = (finished.directory / Files.SUMMARY).read_text()
    table = summary[summary.index("owner view") :]
    shares, us = [], []
    for name in ("libc+k", "checksm", "IBI:Sk", "DBI:Sk", "LRU", "bloom", "BSI", "File", "fault", "other"):
        row = re.search(rf"^\s*{re.escape(name)}\s+([\d.]+)\s+([\d.]+)", table, re.MULTILINE)
        assert row, name
        shares.append(Fraction(row[1]))
        us.append(float(row[2]))
    assert sum(shares) == 100
    assert sum(us) == pytest.approx(finished.record.metrics["cpuPer"], abs=0.05)


def test_queries_are_one_block_each_from_the_device(finished: Finished) -> None:
    metrics = finished.record.metrics
    # The process's own bytes: the device may serve others while we test, and `others' reads` then says so.
    own = sum(w.counters.process_read_bytes for w in windows(finished, "plain"))
    queries = sum(w.counters.queries or 0 for w in windows(finished, "plain"))
    assert 0.9 < own / 8192 / queries < 1.05
    others = next(c for c in finished.record.checks if c.name == "others' reads")
    if others.verdict is Verdict.OK:
        assert metrics["reqsz"] == pytest.approx(8.0, abs=0.5)
    assert metrics["qps"] * metrics["readsPerQuery"] == pytest.approx(metrics["iops"])
    assert metrics["usPer"] + metrics["syPer"] == pytest.approx(metrics["cpuPer"], rel=1e-6)
    assert metrics["cpuPer"] < metrics["rx.lat"]


def test_our_query_count_agrees_with_the_engines_own_closing_line(finished: Finished) -> None:
    result = finished.record.engine_result
    assert result["found"] == result["reads"] == result["operations"]
    ours = window_metrics(finished.record.windows, 1)["qps"]
    # The engine's line covers its whole life, ours the windows: the same rate but for the device's drift.
    assert ours == pytest.approx(result["ops_per_second"], rel=0.25)


def test_counters_of_a_window_agree_with_each_other(finished: Finished) -> None:
    for window in windows(finished, "plain"):
        counted = window.counters
        assert counted.queries is not None
        # O_DIRECT: bytes the process asked storage for are bytes the device read, but for other users of the disk.
        assert counted.process_read_bytes <= counted.storage_read_bytes * 1.01
        assert counted.process_read_bytes == pytest.approx(counted.read_calls * 8192, rel=0.05)
        # One thread: CPU, wait for a CPU and sleep fill the window, and no more.
        assert 0 < counted.cpu_ns + counted.runqueue_wait_ns <= window.seconds * 1e9 * 1.02
        assert counted.user_ns + counted.system_ns == counted.cpu_ns


def test_both_accounts_of_the_cpu_agree_within_two_percent(finished: Finished) -> None:
    plain = windows(finished, "plain")
    scheduler = sum(w.counters.cpu_ns for w in plain)
    accounted = sum(w.counters.accounted_ns for w in plain)
    ticks = 2 * 10_000_000 * len(plain)
    assert abs(accounted - scheduler) <= max(0.02 * scheduler, ticks)
    (check,) = [c for c in finished.record.checks if c.name == "CPU accounting"]
    assert check.verdict is Verdict.OK


def test_the_seconds_add_up_to_their_windows(finished: Finished) -> None:
    series = Run(finished.directory, finished.record).series()
    for kind in ("plain", "perf"):
        parts, wholes = [w for w in series if w.kind == kind], windows(finished, kind)
        assert len(parts) >= (SECONDS - 1) * len(wholes)
        for name in ("storage_reads", "cpu_ns", "read_calls", "voluntary_switches"):
            added = sum(getattr(w.counters, name) for w in parts)
            assert added == sum(getattr(w.counters, name) for w in wholes), name
    interval = finished.record.intervals["qps"]
    assert interval.low <= finished.record.metrics["qps"] <= interval.high


def test_the_commands_and_their_seeds_are_on_record(finished: Finished) -> None:
    commands = {c.name: c for c in finished.record.commands}
    names = ["db_bench load", "db_bench settle", "db_bench readrandom", "perf record (trial)", "perf record"]
    names += ["ebpf iolat", "ebpf ladder", "ebpf offcpu", "ebpf runqlat", "pmp stacksampler", "ebpf whose"]
    names += ["db_bench levelstats"]
    *started, perf, first, second, third, fourth = finished.record.commands
    assert [c.name for c in started] == names
    helpers = (perf, first, second, third, fourth)
    assert {c.name for c in helpers} == {ANALYSIS}
    assert [Path(c.argv[0]).name for c in helpers] == ["perf", *["stackfold"] * 4]
    assert commands["db_bench readrandom"].pid == finished.record.pid
    assert commands["db_bench readrandom"].end == "exit code 0"
    for seeds in finished.record.seeds:
        assert f"--seed={seeds.first}" in commands[f"db_bench {seeds.step}"].argv
    assert f"--num={KEYS}" in commands["db_bench readrandom"].argv


def test_the_flame_graph_shows_the_same_total_and_categories(finished: Finished) -> None:
    text = (finished.directory / Files.FLAMEGRAPH).read_text()
    ElementTree.fromstring(text)
    profile = finished.record.profile
    assert profile is not None
    assert f"{profile.weight:,} {profile.unit}" in text
    assert f"n = {profile.samples:,} samples" in text
    assert "libc+k" in text
    assert "rocksdb::DBImpl::Get" in text


def _without_commands(screen: str) -> str:
    """Without the command that prints the rest, which is written as it was called: by make, or by a test."""
    return re.sub(r"(more:|what they mean:) .{1,300}? (all|checks)\b", r"\1 \2", " ".join(screen.split()))


def test_a_run_ends_with_a_short_view_and_the_rest_is_a_command_away(finished: Finished, ioflame: Ioflame) -> None:
    assert "Where the CPU of one query goes" in finished.out
    # Whatever the set-up said before it, and make after it; the paths and the next step are three more.
    screen = finished.out[finished.out.index("readrandom, 1 thread") :].partition("make[")[0]
    assert len(screen.splitlines()) <= SCREEN + 4
    code, printed, _ = ioflame.run("show", finished.directory)
    assert (code, _without_commands(printed) in _without_commands(finished.out)) == (0, True)
    summary = (finished.directory / Files.SUMMARY).read_text()
    assert ioflame.run("show", finished.directory, "all") == (0, summary, "")
    code, windows, _ = ioflame.run("show", finished.directory, "windows")
    assert code == 0 and windows.rstrip() in summary
    code, record, _ = ioflame.run("show", finished.directory, "checks", "--json")
    assert json.loads(record)["schema"] == finished.record.schema
    for name in ("qps", "iops", "usPer", "syPer", "cpuPer", "reqsz", "coverage", "lost samples", "incomplete stacks"):
        assert name in summary, name
    assert "next:" in finished.out
    assert max(len(line) for line in finished.err.splitlines() if line.startswith("[")) < 200


def test_every_view_of_the_rules_is_shown_with_costs_that_add_up(finished: Finished, ioflame: Ioflame) -> None:
    profile = finished.record.profile
    assert profile is not None
    per_query, per_read = cpu_profiled(finished.record.metrics, profile.mode)
    for view in ("owner", "leaf", "parts"):
        code, text, _ = ioflame.run("show", finished.directory, view)
        assert code == 0 and view in text and "us/query" in text
        table = json.loads(ioflame.run("show", finished.directory, view, "--json")[1])
        rows = {row["name"]: row for row in table["rows"]}
        assert sum(row["weight"] for row in rows.values()) == table["total_weight"] == profile.weight
        assert sum(row["us_per_query"] for row in rows.values()) == pytest.approx(per_query)
        assert sum(row["us_per_read"] for row in rows.values()) == pytest.approx(per_read)
    # The last of them: next to nothing is left over.
    assert rows["other"]["share"] <= 5 and rows["read call"]["weight"] > 0
    assert "parts view" in (finished.directory / Files.SUMMARY).read_text()
    assert "CPU by parts" in (finished.directory / Files.REPORT).read_text()


def test_analyse_makes_the_same_again_from_what_was_recorded(finished: Finished, ioflame: Ioflame) -> None:
    names = (Files.FOLDED, Files.CATEGORIES, Files.FLAMEGRAPH, Files.SUMMARY, Files.WALL_CLOCK, Files.LOCKS)
    kept = {name: (finished.directory / name).read_bytes() for name in names}
    raw = (finished.directory / Files.PERF_DATA).stat()
    (finished.directory / Files.FOLDED).unlink()
    (finished.directory / Files.FLAMEGRAPH).unlink()
    code, out, _ = ioflame.run("analyse", "-v", finished.directory)
    assert code == 0
    assert (finished.directory / Files.SUMMARY).read_text().strip() in out
    assert {name: (finished.directory / name).read_bytes() for name in kept} == kept
    assert (finished.directory / Files.PERF_DATA).stat().st_mtime_ns == raw.st_mtime_ns
    record = json.loads((finished.directory / Files.RECORD).read_bytes())
    assert record["missing"] == []
    checks = open_run(finished.directory).record.checks
    assert checks == finished.record.checks
    proofs = {"LSM tree", "memtable and L0", "levels after", "compaction in the log", "writes while reading"}
    assert {c.name: c.verdict for c in checks if c.name in proofs} == dict.fromkeys(proofs, Verdict.OK)
    for name in proofs:
        assert name in (finished.directory / Files.REPORT).read_text()
