"""One profile with every observer, and profiles in which one cannot watch: the rest of the run stays whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ioflame.checks import Check, Verdict
from ioflame.errors import EXIT_CHECK_FAILED
from ioflame.files import Files
from ioflame.ladder import STAGES, read_ladder
from ioflame.latency import read_io_latency
from ioflame.lines import cells
from ioflame.offcpu import read_off_cpu, read_run_queue, read_wall_clock
from ioflame.record import ANALYSIS, RunRecord, Window
from ioflame.run import Run, open_run
from tests.conftest import ROOT, Ioflame
from tests.e2e.conftest import KEYS

pytestmark = [pytest.mark.needs("perf", "db_bench"), pytest.mark.needs("co-re")]

ALL = ("perf", "iolat", "ladder", "offcpu", "runqlat", "pmp", "null")


def profile(ioflame: Ioflame, arguments: list[str], out: Path, prefix: tuple[str, ...] = ()) -> tuple[int, str, Run]:
    code, text, errors = ioflame.run(*arguments, "--out", out, "--callgraph", "fp", prefix=prefix)
    assert (out / "latest").exists(), errors
    return code, text, open_run((out / "latest").resolve())


def on_the_database(place: Path, scale: str, duration: int) -> list[str]:
    options = {"scale": scale, "num-keys": KEYS, "db-dir": f"{place}/db", "duration": duration}
    return ["profile", *(f"--{name}={value}" for name, value in options.items())]


@pytest.fixture(scope="module")
def observed(place: Path) -> tuple[str, Run]:
    """What a profile with every observer printed, and its run."""
    command = Ioflame()
    arguments = [*on_the_database(place, "smoke", 3), "--collect", " ".join(ALL)]
    _, text, run = profile(command, arguments, place / "observed")
    assert command.left_behind() == []
    return text, run


def checks_of(record: RunRecord, start: str) -> list[Check]:
    return [check for check in record.checks if check.name.startswith(start)]


def window(record: RunRecord, kind: str) -> Window:
    (found,) = [window for window in record.windows if window.kind == kind]
    return found


def test_each_observer_has_its_window_and_each_window_its_place(observed: tuple[str, Run]) -> None:
    windows = observed[1].record.windows
    between = [kind for name in ALL for kind in (name, "plain")]
    assert [window.kind for window in windows] == ["warm-up", "plain", *between]
    edges = [edge for window in windows for edge in (window.start_ns, window.end_ns)]
    assert edges == sorted(edges)


def test_every_file_is_there_and_nothing_is_missing(observed: tuple[str, Run]) -> None:
    run = observed[1]
    assert (run.record.missing, run.record.unobserved) == ([], [])
    files = {
        *(Files.RECORD, Files.SUMMARY, Files.REPORT, Files.PERF_DATA, Files.CATEGORIES, Files.FLAMEGRAPH),
        *(Files.IO_LATENCY, Files.LADDER, Files.OFF_CPU, Files.OFF_CPU_DATA, Files.OFF_CPU_FLAMEGRAPH),
        *(Files.PROFILE, Files.OFF_CPU_PROFILE, Files.PMP_PROFILE, Files.RUN_QUEUE),
        *(Files.WALL_CLOCK, Files.PMP, Files.PMP_DATA, Files.PMP_FOLDED, Files.PMP_FLAMEGRAPH, Files.LOCKS),
    }
    assert {name for name in files if not run.path(name).stat().st_size} == set()


def test_no_check_of_an_observer_failed(observed: tuple[str, Run]) -> None:
    record = observed[1].record
    for start in ("iolat", "ladder", "on-CPU + off-CPU", "pmp"):
        found = checks_of(record, start)
        assert found, f"no check of {start}"
        assert [check for check in found if check.verdict in (Verdict.FAILED, Verdict.BLOCKED)] == []


def test_the_observers_windows_are_those_of_the_run(observed: tuple[str, Run]) -> None:
    run = observed[1]
    iolat, ladder = read_io_latency(run.path(Files.IO_LATENCY)), read_ladder(run.path(Files.LADDER))
    off, queue = read_off_cpu(run.path(Files.OFF_CPU)), read_run_queue(run.path(Files.RUN_QUEUE))
    for kind, opened, closed in (
        ("iolat", iolat.start_ns, iolat.end_ns),
        ("ladder", ladder.start_ns, ladder.end_ns),
        ("offcpu", off.start_ns, off.end_ns),
        ("runqlat", queue.start_ns, queue.end_ns),
    ):
        # Opened just before the counters are read, and closed just after.
        around = window(run.record, kind)
        assert opened <= around.start_ns < around.end_ns <= closed


def test_iolat_has_the_processes_own_reads(observed: tuple[str, Run]) -> None:
    run = observed[1]
    latency = read_io_latency(run.path(Files.IO_LATENCY))
    row, unseen = latency.row("read", "process"), latency.losses["no_end"]
    # Its gate is wider than the window, so it has all of the window's and a few more.
    assert row.total.count + unseen >= 0.98 * window(run.record, "iolat").counters.read_calls
    assert row.total.count > unseen
    assert row.total.sum_ns == row.queue.sum_ns + row.device.sum_ns


def test_each_wake_up_of_a_reader_is_a_wait_for_a_cpu(observed: tuple[str, Run]) -> None:
    run = observed[1]
    queue, counted = read_run_queue(run.path(Files.RUN_QUEUE)), window(run.record, "runqlat").counters
    # A thread that gave its CPU up is woken once before it runs again, seen or not. The gate is wider than the window.
    woken, unseen = queue.waits["woken"].count, queue.losses["no_start"]
    assert woken + unseen >= 0.98 * counted.voluntary_switches > 0
    assert woken > unseen
    table = run.path(Files.SUMMARY).read_text().partition("Waits for a CPU (us; ")[2].partition("\n\n")[0]
    assert re.search(rf"^woken +{queue.waits['woken'].count:,} ", table, re.MULTILINE)
    page = run.path(Files.REPORT).read_text()
    assert "<h3>Run queue</h3>" in page and "Not shown" not in page


def test_the_parts_of_the_ladder_add_up(observed: tuple[str, Run]) -> None:
    ladder = read_ladder(observed[1].path(Files.LADDER))
    assert ladder.start == "query"
    assert [rung.name for rung in ladder.stages] == list(STAGES)
    assert {rung.count for rung in ladder.stages} == {ladder.total.count}
    assert sum(rung.sum_ns for rung in ladder.stages) == ladder.total.sum_ns > 0


def test_the_latency_table_names_each_layer_once(observed: tuple[str, Run]) -> None:
    summary = observed[1].path(Files.SUMMARY).read_text()
    table = summary[summary.index("Latency from the engine to the device") :].partition("\n\n")[0]
    rows = {
        row[1]: float(row[2]) for row in re.finditer(r"^([\w. ]+?) +(?:plain|ladder|iolat) +([\d.]+) ", table, re.M)
    }
    assert list(rows) == ["rx.lat", "query", "read call", "block total", "device", "io.lat"]
    # Of the same reads, each layer holds the next.
    assert rows["query"] > rows["read call"]
    assert rows["block total"] > rows["device"]
    ladder = read_ladder(observed[1].path(Files.LADDER))
    assert f"{ladder.device_gap()[0].name} {ladder.device_gap()[0].mean_ns / 1e3:.2f} us" in table


def test_the_summary_fits_a_hundred_columns(observed: tuple[str, Run]) -> None:
    lines = observed[1].path(Files.SUMMARY).read_text().split("\n")
    assert [line for line in lines if cells(line) > 100] == []
    # No table is folded: a figure alone on a line would be the end of the row above it.
    assert [line for line in lines if re.fullmatch(r"\s+[\d.,%]+", line)] == []


def test_on_cpu_and_off_cpu_are_all_the_threads_time(observed: tuple[str, Run]) -> None:
    off = read_off_cpu(observed[1].path(Files.OFF_CPU))
    assert off.ran_ns + off.off_ns == pytest.approx(off.elapsed_ns, rel=0.02)


def test_the_wall_clock_by_category_is_the_elapsed_time_of_a_query(observed: tuple[str, Run]) -> None:
    clock = read_wall_clock(observed[1].path(Files.WALL_CLOCK))
    assert clock.queries
    per_query = sum(row.us_per_query or 0.0 for row in clock.rows)
    assert per_query == pytest.approx(clock.elapsed_ns / 1e3 / clock.queries, rel=0.02)
    on_cpu = {row.category for row in clock.rows if row.state == "on-CPU"}
    assert "libc+k" in on_cpu and len(on_cpu) > 3  # perf's categories, scaled to the time on a CPU


def test_each_observer_has_its_cost_and_so_has_none_at_all(observed: tuple[str, Run]) -> None:
    text, run = observed
    assert [cost.kind for cost in run.record.costs] == list(ALL)
    table = text[text.index("Observers:") :]
    for name in ALL:
        assert re.search(rf"^ +{name} +[+-]\d+\.\d% +[+-]\d+\.\d% \.\. [+-]\d+\.\d%$", table, re.MULTILINE), name


def test_each_recording_is_folded_once(observed: tuple[str, Run]) -> None:
    folds = [c.argv for c in observed[1].record.commands if c.name == ANALYSIS and "stackfold" in c.argv[0]]
    assert sorted(Path(argv[-1]).name for argv in folds) == sorted(
        [Files.PERF_DATA, Files.OFF_CPU_DATA, Files.PMP_DATA]
    )


def test_analyse_makes_the_same_of_it_again(observed: tuple[str, Run], ioflame: Ioflame) -> None:
    _, run = observed
    before = run.path(Files.SUMMARY).read_text()
    files = {name: run.path(name).read_bytes() for name in (Files.WALL_CLOCK, Files.LOCKS, Files.CATEGORIES)}
    ioflame.run("analyse", run.directory, "-q")
    assert run.path(Files.SUMMARY).read_text() == before
    assert {name: run.path(name).read_bytes() for name in files} == files


# The loader as it is where clang was missing at set-up.
HIDE_LOADER = f"mount --bind /dev/null {ROOT}/target/release/ioflame-ebpf"
UNBUILT = ("unshare", "--mount", "sh", "-c", f'{HIDE_LOADER} && exec "$@"', "sh")


@pytest.mark.needs("unshare")
def test_an_observer_that_cannot_watch_leaves_the_rest_whole(ioflame: Ioflame, place: Path, tmp_path: Path) -> None:
    arguments = [*on_the_database(place, "smoke", 1), "--collect", "perf offcpu"]
    code, text, run = profile(ioflame, arguments, tmp_path, prefix=UNBUILT)
    (check,) = [check for check in run.record.checks if check.name == "offcpu"]
    assert check.verdict is Verdict.FAILED  # it was asked for by name
    assert "make setup" in check.mend
    assert f"-> {check.mend}" in text
    assert code == EXIT_CHECK_FAILED
    # The rest: what perf recorded is folded whole, and every window that could be measured was.
    (folded,) = [check for check in run.record.checks if check.name == "folded = perf report"]
    assert folded.verdict is Verdict.OK
    kinds = [window.kind for window in run.record.windows]
    assert [kind for kind in kinds if kind not in ("warm-up", "plain")] == ["perf"]
    assert run.record.missing == []
