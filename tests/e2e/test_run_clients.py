"""Clients that are no db_bench, under `ioflame run`: us per query by what they print, or by the calls of a function."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from ground.results.categories import read_categories
from ground.results.cells import CellsRun
from ground.results.files import Files
from ground.results.run import open_run
from tests.conftest import Ioflame
from tests.e2e.commands import measured, script
from tests.e2e.test_services import figures_of_transactions, serving_postgresql
from tests.figures import Report
from tests.ioflame.asked import asked, refused
from tests.pgbench import ends_of_transactions, logging_to
from tests.places import ROOT
from tests.recorded_run import Measured

pytestmark = pytest.mark.needs("perf")

_OPTIONS = ("--seconds=8", "--collect=perf", "--warm-up=1")


def watched(place: Path, *words: str | Path, options: tuple[str, ...] = ()) -> Measured:
    return measured(place / "runs", "run", *_OPTIONS, *options, "--", *words)


def rates(text: str, pattern: str) -> list[float]:
    return [float(found) for found in re.findall(pattern, text, re.MULTILINE)]


@pytest.mark.by_hand
@pytest.mark.needs("postgresql")
def test_pgbench_has_us_a_transaction_and_its_server_is_watched_where_it_is_named(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, figure: Report
) -> None:
    with serving_postgresql(tmp_path_factory) as (pid, _, pgbench):
        command = [*pgbench[:-3], "-c", "2", "-T", "20", "postgres"]
        done = watched(tmp_path / "client", *command, *logging_to(tmp_path))
        command.insert(-1, "--progress-timestamp")
        served = watched(tmp_path / "server", *command, options=(f"--server={pid}",)).record
        assert Path(f"/proc/{pid}").exists(), "the server lives on"
    record = done.record
    assert "added to the command: --progress=1" in done.err
    assert "--server PID watches PostgreSQL instead" in done.err
    printed = rates(done.err, r"^progress: [\d.]+ s, ([\d.]+) tps")
    figure("transactions a second", record.metrics["qps"], expected=f"{min(printed)} to {max(printed)}")
    # Between two lines of its progress the rate is taken to be even.
    figures_of_transactions(figure, record.windows, ends_of_transactions(tmp_path))
    assert record.metrics["rx.lat"] == pytest.approx(2 * 1e6 / record.metrics["qps"], rel=1e-6), "of two connections"
    assert served.engine == "postgresql" and served.target is not None and pid in served.target.pids
    assert served.metrics["qps"], "seconds since 1970"
    assert "client backends" in served.target.groups


@pytest.mark.by_hand
@pytest.mark.needs("sysbench")
def test_sysbench_prints_each_line_at_once_and_is_counted(tmp_path: Path, figure: Report) -> None:
    done = watched(tmp_path, "sysbench", "cpu", "--time=20", "run")
    assert "added to the command: stdbuf -oL (before the program) and --report-interval=1" in done.err
    printed = rates(done.out, r"^\[ \d+s \] thds: 1 eps: ([\d.]+)")
    assert "General statistics:" in done.out
    figure("events a second", done.record.metrics["qps"], expected=f"{min(printed)} to {max(printed)}")


# A program that sysbench's description fits: it burns CPU, and prints what sysbench does, of the same rate each second.
_LIKE_SYSBENCH = """
end=$((SECONDS + 30)); last=$SECONDS
while [ $SECONDS -lt $end ]; do
  [ $SECONDS = $last ] || { last=$SECONDS; echo "[ ${last}s ] thds: 1 eps: 250.00 lat (ms,95%): 4.10"; }
done
"""


@pytest.mark.long
def test_a_client_is_counted_by_the_lines_that_it_prints_and_its_server_watched_where_it_is_named(
    burner: subprocess.Popen[str], tmp_path: Path
) -> None:
    client = script(tmp_path / "bin" / "sysbench", f"exec bash -c {shlex.quote(_LIKE_SYSBENCH)}")
    done = watched(tmp_path / "client", client, "cpu", "--time=30", "run")
    assert "added to the command: --report-interval=1" in done.err
    counted(done)
    options = (f"--server={burner.pid}",)
    served = watched(tmp_path / "server", client, "cpu", "--time=30", "run", options=options)
    assert served.record.target is not None and served.record.target.pids == [burner.pid]
    counted(served)
    assert burner.poll() is None


def counted(done: Measured) -> None:
    """Queries of all windows were counted, no more than were printed; what one costs follows from them."""
    metrics, seconds = done.record.metrics, rates(done.out, r"^\[ (\d+)s \] thds: 1 eps: 250.00")
    assert 0 < sum(window.counters.queries or 0 for window in done.record.windows) <= 250 * max(seconds)
    assert metrics["cpuPer"] * metrics["qps"] == pytest.approx(metrics["cores"] * 1e6, rel=1e-6)


@pytest.mark.long
@pytest.mark.needs("db_bench", "ldb", "co-re")
def test_ldb_is_counted_by_the_keys_that_it_reads(tmp_path: Path) -> None:
    database = tmp_path / "db"
    load = ["db_bench", "--benchmarks=fillseq", f"--db={database}", "--num=1500000", "--value_size=16"]
    subprocess.run(load, capture_output=True, check=True)
    # Whoever reads its lines is slow: it is under way as long as it is watched.
    slowly = '"$0" "$@" | { until [ $SECONDS -ge 40 ] || ! read -r line; do :; done; }'
    scan = ["bash", "-c", slowly, "ldb", f"--db={database}", "--hex", "scan"]
    done = watched(tmp_path, *scan, options=("--client=ldb",))
    assert done.out == "" and done.record.target is not None
    assert "calls of rocksdb::DBIter::Next" in done.record.target.count and not done.record.target.count_failed
    assert done.record.metrics["qps"] > 0


@pytest.mark.long
@pytest.mark.needs("db_bench")
def test_a_script_calls_ioflame_where_it_has_a_place_for_perf_and_attach_knows_its_db_bench(tmp_path: Path) -> None:
    """The line of the documentation, word for word."""
    text = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    (hook,) = re.findall(r'^if \[ -n "\$IOFLAME_PERF" \].*$', text, re.MULTILINE)
    bench, report = ["db_bench", f"--db={tmp_path}/db", "--num=400000"], ["--report_interval_seconds=1"]
    load = shlex.join([*bench, "--benchmarks=fillseq"])
    report += ["--report_file=own.csv", "--use_existing_db", "--duration=3600", "--threads=2"]
    read = shlex.join([*bench, "--benchmarks=readrandom", *report])
    script = f"{load} >load.log 2>&1\n{read} >read.log 2>&1 & pid=$!\n"
    script += f'until [ -e own.csv ] && [ "$(wc -l <own.csv)" -ge 3 ]; do :; done\n{hook}\n'
    script += "kill $pid; wait $pid; echo ended $?\n"
    attach = shlex.join([sys.executable, "-m", "ioflame.cli", "attach", "--seconds=8", "--collect=perf", "--out=runs"])
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "IOFLAME_PERF": attach}
    found = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True,
                           timeout=1800, check=False)  # fmt: skip
    assert found.stdout == "ended 143\n", found.stderr
    own = tmp_path / "own.csv"
    assert f"queries are counted by the report {own}" in found.stderr
    record = open_run((tmp_path / "runs" / "latest").resolve()).record
    assert (record.workload, record.threads) == ("readrandom", 2)
    assert record.profile is not None and record.profile.frequency == 999
    assert {"qps", "cpuPer", "rx.lat"} <= record.metrics.keys()
    seconds = [int(line.split(",")[1]) for line in own.read_text(encoding="ascii").splitlines()[1:]]
    assert 0 < sum(window.counters.queries or 0 for window in record.windows) <= sum(seconds)


_CELLS = """
about = "writes of some threads"
shows = "x"
cannot = "x"
layout = { database = "none" }
scale.smoke = { about = "seconds", duration = 1 }
breakdowns = [{ step = "last", by = "owner" }]
columns = [
  { name = "qps", about = "x", part = ["command.qps"] },
  { name = "us", about = "x", part = ["last.cpuPer"] },
]
holds = [{ what = "a write takes some CPU", proof = "within", column = "us", low = 0.001, high = 1e6 }]
"""


@pytest.mark.long
@pytest.mark.needs("db_bench")
def test_a_command_is_a_cell_of_an_experiment(
    ioflame: Ioflame, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    fill = f"db_bench --benchmarks=fillrandom --num=100000000 --duration=30 --db={tmp_path}/own"
    cells = [f'[[cells]]\nname = "{n}"\ncommand = "{fill}{n} --threads={n}"\n' for n in (1, 2)]
    path.write_text(_CELLS + "".join(cells), encoding="utf-8")
    words = (str(path), "--scale=smoke", f"--out={tmp_path / 'runs'}", f"--db-dir={tmp_path / 'db'}")
    code, out, err = asked(capsys, "explain", *words[:2])
    assert code == 0 and "--benchmarks=fillrandom" in out and "--threads=2" in out, err
    code, out, err = ioflame.run("experiment", *words)
    assert code in (0, 1) and "micros/op" not in out + err, err
    (directory,) = (one.parent for one in (tmp_path / "runs").glob("*/cells.json"))
    record = CellsRun.open(directory).record
    assert [run.status for run in record.runs] == ["done", "done"], err
    assert "passed: a write takes some CPU" in out and "by category (owner)" in out
    page = (directory / Files.EXPERIMENT).read_text(encoding="utf-8")
    assert re.search(rf"report:       .*{directory.name}/{Files.EXPERIMENT}", out)
    for run in record.runs:
        assert "micros/op" in (directory / f"{run.cell}-1-command.log").read_text(encoding="utf-8")
        measured_run = open_run(directory / run.runs["command"])
        assert run.figures["command.qps"] == measured_run.record.metrics["qps"] > 0
        costs = {row.name: row.us_per_query for row in read_categories(measured_run.directory).rows}
        assert run.figures["command.owner.memtable insert"] == costs["memtable insert"]
        assert f'href="{quote(run.runs["command"])}/{Files.REPORT}"' in page
        assert measured_run.path(Files.REPORT).is_file()
    # The store holds each as itself, and the file is the one that it was begun with.
    code, out, err = asked(capsys, "store", "add", tmp_path / "store", directory)
    assert code == 0 and out.count("added:") == 2, out + err
    path.write_text(path.read_text(encoding="utf-8").replace("--threads=2", "--threads=3"), encoding="utf-8")
    said = refused(capsys, "experiment", *words, "--resume", directory)
    assert "steps of 2: " in said
