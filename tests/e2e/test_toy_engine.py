"""A second engine is one folder: the toy, which only this test knows, goes all the way from `explain` to the report."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from urllib.parse import quote

import pytest

import workloads.engines
from folding.locks import lock_report, read_rules
from ground.results.categories import read_categories
from ground.results.cells import CellsRun
from ground.results.checks import Verdict
from ground.results.files import Files
from ground.results.ladder import read_ladder
from ground.results.profile import FoldedStack
from ground.results.run import open_run
from tests.conftest import Ioflame
from tests.places import ROOT
from tests.programs import FRAMES, compiled
from workloads.registry import engine_named, engine_names, rules_named

ENGINES = ROOT / "tests" / "engines"
KEYS = 100_000
_FLAGS = (*FRAMES, "-g", "-pthread")


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is known: here, and to every command that is started."""
    monkeypatch.setattr(workloads.engines, "__path__", [*workloads.engines.__path__, str(ENGINES)])
    monkeypatch.setenv("IOFLAME_ENGINES", str(ENGINES))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(ENGINES / "toy" / "toy_bench.cc", tmp_path_factory.mktemp("toy") / "toy_bench", *_FLAGS)


def test_it_is_listed_and_explained_by_its_folder_alone(ioflame: Ioflame, client: Path) -> None:
    code, out, err = ioflame.run("list", "--engine=toy")
    assert (code, err) == (0, "")
    assert "through its toy_bench" in out and "blocks at random" in out and "readrandom" not in out
    code, out, err = ioflame.run("explain", "getrandom", "--engine=toy", f"--db-bench={client}", "--threads=3")
    assert code == 0, err
    assert out.startswith(f"# {client}, Toy 1.0;")
    argv = shlex.split(out.rpartition("#")[2].partition("\n")[2].replace("\\\n", ""))
    assert argv[:2] == [str(client), "--benchmarks=get"]
    assert {"--threads=3", "--direct=true", "--report=RUN/toy_bench.report.csv", "--block_size=8192"} <= set(argv)
    code, out, err = ioflame.run("explain", "getrandom", "--engine=toy", f"--db-bench={client}", "--config=iodir")
    assert (code, out) == (2, "") and "CONFIG=unbuffered|through_cache" in err
    assert ioflame.run("explain", "getrandom", "--engine=toys")[0] == 2


def test_its_lock_rules_stand_beside_those_of_the_libraries(tmp_path: Path) -> None:
    def waits(*frames: str) -> FoldedStack:
        return FoldedStack(frames, ("",) * len(frames), "toy", None, 5, 1, "sleeping_[S]", "toy read")

    stacks = [waits("toy::Scan", "toy::Latch::Take"), waits("toy::Find", "pthread_mutex_lock")]
    of_toy = lock_report(stacks, read_rules(rules_named("toy").locks))
    assert {site.place for site in of_toy.sites} == {"toy::Scan", "toy::Find"}
    of_rocksdb = lock_report(stacks, read_rules(rules_named("rocksdb").locks))
    assert {site.place for site in of_rocksdb.sites} == {"toy::Find"}
    # Rules of a user's own are for categories; what takes the engine's place is the default.
    own = rules_named(str(tmp_path / "own.toml"))
    assert (own.categories, own.locks) == (str(tmp_path / "own.toml"), rules_named("rocksdb").locks)
    assert set(engine_names()) == {"leveldb", "lmdb", "rocksdb", "toy"}


def test_its_categories_colour_the_stacks_of_any_profile(ioflame: Ioflame, tmp_path: Path) -> None:
    given, out = tmp_path / "stacks.folded", tmp_path / "stacks.svg"
    given.write_text("toy;main;toy::Store::Get;toy::Sum 30\ntoy;main;toy::Store::ReadBlock;pread 60\n")
    code, _, err = ioflame.run("flamegraph", given, "-o", out, "--rules=toy")
    assert code == 0, err
    drawn = out.read_text(encoding="utf-8")
    assert "toy read" in drawn and "toy sum" in drawn


@pytest.mark.needs("perf", "co-re")
def test_it_is_profiled_and_analysed_again(ioflame: Ioflame, client: Path, tmp_path: Path) -> None:
    place = [f"--db-dir={tmp_path}/db", f"--out={tmp_path}/runs", f"--db-bench={client}", "--collect=perf ladder pmp"]
    size = ["--scale=smoke", "--duration=1", f"--num-keys={KEYS}", "--cache-size=1M"]
    _, _, err = ioflame.run("profile", "--engine=toy", *size, *place)
    assert (tmp_path / "runs" / "latest" / "run.json").exists(), err
    run = open_run(tmp_path / "runs" / "latest")
    assert (run.record.engine, run.record.workload, run.record.missing) == ("toy", "getrandom", []), err
    assert {"toy_bench.log", "toy_bench.report.csv"} <= {path.name for path in run.directory.iterdir()}
    assert [c.name for c in run.record.commands][:3] == ["toy_bench load", "toy_bench settle", "toy_bench getrandom"]
    assert run.record.engine_result["found"] == run.record.engine_result["reads"] > 0

    # The report by second, the closing line and the windows count the same queries.
    rates = engine_named("toy").parse_report(run.path("toy_bench.report.csv").read_text(encoding="utf-8"))
    assert sum(rates) == pytest.approx(run.record.engine_result["operations"], rel=0.01)
    counted = [w.counters.queries for w in run.record.windows]
    assert all(queries is not None and 0 < queries < sum(rates) for queries in counted)

    # Its categories, threads, queries and statistics are those of its folder.
    weights = {row.name: row.weight for row in read_categories(run.directory).rows}
    assert set(weights) == {"toy read", "toy sum", "toy tidy", "other"}
    assert weights["other"] < sum(weights.values()) / 2 and weights["toy sum"] > 0
    assert {row.name for row in read_categories(run.directory, "leaf").rows} == {"toy kernel", "other"}
    checks = {check.name: check for check in run.record.checks}
    assert checks["background threads"].means == "tidying ran while reads were measured"
    assert checks["compaction in the log"].verdict is Verdict.OK
    ladder = read_ladder(run.path(Files.LADDER))
    assert ladder.start == "query" and [watched.name for watched in ladder.query] == ["toy::Store::Get(long, char*)"]

    again = tmp_path / "again"
    shutil.copytree(run.directory, again)
    assert ioflame.run("analyse", again)[0] in (0, 1)
    assert open_run(again).record.checks == run.record.checks
    assert read_categories(again) == read_categories(run.directory)
    code, _, err = ioflame.run("show", again, "parts")
    assert code == 2 and "categories.parts.json" in err and "one of: owner, leaf, windows" in err
    page = (again / Files.REPORT).read_text(encoding="utf-8")
    assert "toy sum" in page and "QPS by second is not shown" not in page and "No time line" not in page


CELLS = """
about = "blocks at random, by several builds"
shows = "what a block costs"
cannot = "anything else"
steps = ["load", "getrandom"]
scale.smoke = { about = "seconds", num_keys = 20000, duration = 2, warmup = 1, rounds = ROUNDS }
cells = [{ name = "direct", configuration = "unbuffered" }]
breakdowns = [{ step = "getrandom", by = "owner" }]
columns = [
  { name = "gets", about = "gets a second", part = ["getrandom.qps"], digits = 0, metric = "qps" },
  { name = "CPU", about = "us of CPU per get", part = ["getrandom.cpuPer"], digits = 2, metric = "cpuPer" },
]
holds = [{ what = "blocks are read", proof = "within", column = "gets", low = 1.0, high = 1e9 }]
"""


def run_cells(ioflame: Ioflame, tmp_path: Path, rounds: int, builds: str) -> tuple[Path, str]:
    """The directory of a small experiment of cells, and what it printed."""
    own = tmp_path / "own.toml"
    own.write_text(CELLS.replace("ROUNDS", str(rounds)))
    code, out, err = ioflame.run(
        "experiment", own, "--engine=toy", "--scale=smoke", "--callgraph=fp", f"--db-bench={builds}",
        f"--db-dir={tmp_path}/db", f"--out={tmp_path}/out",
    )  # fmt: skip
    # The toy tidies up while it is read, which a proof says, and does not find what is no block: code 1 may be.
    assert code in (0, 1), err + out
    (directory,) = (tmp_path / "out").iterdir()
    return directory, out


@pytest.mark.needs("perf")
def test_a_cell_is_measured_window_by_window_and_leads_to_its_run(
    ioflame: Ioflame, client: Path, tmp_path: Path
) -> None:
    directory, out = run_cells(ioflame, tmp_path, 1, str(client))
    (run,) = CellsRun.open(directory).record.runs
    assert run.status == "done", run.why
    measured = open_run(directory / run.runs["getrandom"])
    assert run.figures["getrandom.qps"] == measured.record.metrics["qps"] > 0
    rows = {row.name: row.us_per_query for row in read_categories(measured.directory).rows}
    assert run.figures["getrandom.owner.toy sum"] == rows["toy sum"]
    assert "passed: blocks are read" in out and "by category (owner)" in out
    page = (directory / Files.EXPERIMENT).read_text(encoding="utf-8")
    assert f'href="{quote(run.runs["getrandom"])}/{Files.REPORT}"' in page
    assert re.search(rf"report:       .*{directory.name}/{Files.EXPERIMENT}", out)


@pytest.mark.by_hand
@pytest.mark.alone
@pytest.mark.needs("perf")
def test_the_build_that_was_made_slower_is_found_in_its_row_and_the_same_one_again_is_not(
    ioflame: Ioflame, client: Path, tmp_path: Path
) -> None:
    source = (ENGINES / "toy" / "toy_bench.cc").read_text(encoding="utf-8")
    assert "round < 8" in source
    slow, again = tmp_path / "slow", tmp_path / "again"
    compiled(source.replace("round < 8", "round < 24"), slow, *_FLAGS, compiler="g++")
    shutil.copyfile(client, again)
    again.chmod(0o755)
    directory, out = run_cells(ioflame, tmp_path, 3, f"A={client},again={again},slow={slow}")
    assert [run.cell.partition(", ")[2] for run in CellsRun.open(directory).record.runs[:4]] == [
        "A", "again", "slow", "A",
    ]  # fmt: skip
    table = [line.split("\t") for line in (directory / "relative.tsv").read_text().splitlines()]
    marks = {(row[3], row[4]): row[-1] for row in table[1:]}
    assert marks["CPU", "slow"] == "-" and marks["CPU", "again"] not in ("-", "+")
    seen = {}
    for build in ("again", "slow"):
        text = out[out.index(f"{build} - A") :].split("\n\n")[0]
        seen[build] = {line.split("  ")[1].strip() for line in text.splitlines() if line.endswith("  seen")}
    assert seen["slow"] >= {"on CPU", "toy sum"} and "toy read" not in seen["slow"]
    assert seen["again"] == set()
