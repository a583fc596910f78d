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
from tests.e2e.commands import measured
from tests.ioflame.asked import asked, refused
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


def test_it_is_listed_and_explained_by_its_folder_alone(capsys: pytest.CaptureFixture[str], client: Path) -> None:
    code, out, err = asked(capsys, "list", "--engine=toy")
    assert (code, err) == (0, "")
    assert "through its toy_bench" in out and "blocks at random" in out and "readrandom" not in out
    code, out, err = asked(capsys, "explain", "getrandom", "--engine=toy", f"--db-bench={client}", "--threads=3")
    assert code == 0, err
    assert out.startswith(f"# {client}, Toy 1.0;")
    argv = shlex.split(out.rpartition("#")[2].partition("\n")[2].replace("\\\n", ""))
    assert argv[:2] == [str(client), "--benchmarks=get"]
    assert {"--threads=3", "--direct=true", "--report=RUN/toy_bench.report.csv", "--block_size=8192"} <= set(argv)
    said = refused(capsys, "explain", "getrandom", "--engine=toy", f"--db-bench={client}", "--config=iodir")
    assert "CONFIG=unbuffered|through_cache" in said
    refused(capsys, "explain", "getrandom", "--engine=toys")


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


def test_its_categories_colour_the_stacks_of_any_profile(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    given, out = tmp_path / "stacks.folded", tmp_path / "stacks.svg"
    given.write_text("toy;main;toy::Store::Get;toy::Sum 30\ntoy;main;toy::Store::ReadBlock;pread 60\n")
    code, _, err = asked(capsys, "flamegraph", given, "-o", out, "--rules=toy")
    assert code == 0, err
    drawn = out.read_text(encoding="utf-8")
    assert "toy read" in drawn and "toy sum" in drawn


@pytest.mark.long
@pytest.mark.needs("perf", "co-re")
def test_it_is_profiled_and_analysed_again(capsys: pytest.CaptureFixture[str], client: Path, tmp_path: Path) -> None:
    place = [f"--db-dir={tmp_path}/db", f"--db-bench={client}", "--collect=perf ladder pmp"]
    size = ["--scale=smoke", "--duration=1", f"--num-keys={KEYS}", "--cache-size=1M"]
    run = measured(tmp_path / "runs", "profile", "--engine=toy", *size, *place).run
    assert (run.record.engine, run.record.workload, run.record.missing) == ("toy", "getrandom", [])
    assert {"toy_bench.log", "toy_bench.report.csv"} <= {path.name for path in run.directory.iterdir()}
    assert [c.name for c in run.record.commands][:3] == ["toy_bench load", "toy_bench settle", "toy_bench getrandom"]
    assert run.record.engine_result["found"] == run.record.engine_result["reads"] > 0

    # The report by second, the closing line and the windows count the same queries.
    rates = engine_named("toy").parse_report(run.path("toy_bench.report.csv").read_text(encoding="utf-8"))
    # It was asked to end within a second, which has no line.
    assert 0 <= run.record.engine_result["operations"] - sum(rates) <= max(rates)
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
    assert asked(capsys, "analyse", again)[0] in (0, 1)
    assert open_run(again).record.checks == run.record.checks
    assert read_categories(again) == read_categories(run.directory)
    said = refused(capsys, "show", again, "parts")
    assert "categories.parts.json" in said and "one of: owner, leaf, windows" in said
    page = (again / Files.REPORT).read_text(encoding="utf-8")
    assert "toy sum" in page and "QPS by second is not shown" not in page and "No time line" not in page


CELLS = """
about = "blocks at random, by several builds"
shows = "what a block costs"
cannot = "anything else"
steps = ["load", "getrandom"]
scale.smoke = { about = "seconds", num_keys = 20000, duration = 2, warmup = 1 }
cells = [{ name = "direct", configuration = "unbuffered" }]
breakdowns = [{ step = "getrandom", by = "owner" }]
columns = [
  { name = "gets", about = "gets a second", part = ["getrandom.qps"], digits = 0, metric = "qps" },
  { name = "CPU", about = "us of CPU per get", part = ["getrandom.cpuPer"], digits = 2, metric = "cpuPer" },
]
holds = [{ what = "blocks are read", proof = "within", column = "gets", low = 1.0, high = 1e9 }]
"""


@pytest.mark.long
@pytest.mark.needs("perf")
def test_a_cell_is_measured_window_by_window_and_leads_to_its_run(
    ioflame: Ioflame, client: Path, tmp_path: Path
) -> None:
    own = tmp_path / "own.toml"
    own.write_text(CELLS)
    code, out, err = ioflame.run(
        "experiment", own, "--engine=toy", "--scale=smoke", "--callgraph=fp", f"--db-bench={client}",
        f"--db-dir={tmp_path}/db", f"--out={tmp_path}/out",
    )  # fmt: skip
    # The toy tidies up while it is read, which a proof says, and does not find what is no block: code 1 may be.
    assert code in (0, 1), err + out
    (directory,) = (tmp_path / "out").iterdir()
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
