"""`ioflame show RUN PART`: as TSV the figures of its file, and through a pager only where somebody looks."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import tarfile
from pathlib import Path

import msgspec
import pytest

from ground.errors import EXIT_OK
from ground.results.categories import Operation, read_categories
from ground.results.event_group import EventGroup, GroupRow, Member
from ground.results.files import Files
from ground.results.record import RunRecord
from ground.results.run import open_run
from ground.system.atomic_files import write_json
from ground.system.unpack import unpack_into
from ground.text.tsv import Row, tsv
from ioflame.analysis.jobs import job_costs
from ioflame.cli import main
from ioflame.present.parts import all_parts
from tests.background_jobs import recorded, samples, windows
from tests.ground.results.test_older_runs import KEPT
from tests.ioflame.commands.test_terminal import ioflame, on_terminal
from tests.places import ROOT
from tests.viz.observers import results

USAGE = ROOT / "docs" / "usage.md"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that has every part."""
    base = tmp_path_factory.mktemp("shown")
    with tarfile.open(KEPT) as archive:
        unpack_into(archive, base)
    directory = base / "run-0.1.0"
    for name, result in results().items():
        if not (directory / name).exists():
            write_json(directory / name, result)
    write_json(directory / Files.JOBS, recorded())
    write_json(directory / Files.JOB_COSTS, job_costs(recorded(), windows(), "write", samples(), []))
    own = read_categories(directory)
    write_json(directory / Files.OPERATIONS, [Operation("get", "one key", 100.0, 31, 0.5, None, 9.0, 5.5, own)])
    members = [Member("cycles", "cycles", 700, 700), Member("instructions", "instructions", 900, 900)]
    group = EventGroup("owner", "process", members, [GroupRow("LRU", "block cache", [700, 900])], 10.0)
    write_json(directory / Files.EVENT_GROUP, group)
    return directory


def table(capsys: pytest.CaptureFixture[str], run: Path, part: str) -> list[dict[str, str]]:
    """The rows of a part, each with a cell for every name of the first line."""
    assert main(["show", str(run), part, "--tsv"]) == EXIT_OK
    head, *rows = [line.split("\t") for line in capsys.readouterr().out.removesuffix("\n").split("\n")]
    assert len(set(head)) == len(head) and all(head)
    return [dict(zip(head, row, strict=True)) for row in rows]


def numbers(value: object) -> set[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return set().union(*map(numbers, value))
    return {float(value)} if isinstance(value, int | float) else set()


@pytest.mark.parametrize("part", all_parts())
def test_its_integers_are_those_of_the_file_to_the_last_digit(
    capsys: pytest.CaptureFixture[str], run: Path, part: str
) -> None:
    rows = table(capsys, run, part)
    assert rows
    files = [run / all_parts()[part].file, run / Files.WALL_CLOCK]
    if part in ("latency", "all"):
        files = list(run.glob("*.json"))
    known = set().union(*(numbers(json.loads(file.read_text(encoding="utf-8"))) for file in files))
    integers = [cell for row in rows for cell in row.values() if cell.isdecimal()]
    assert integers or part in ("checks", "latency")
    assert {float(cell) for cell in integers} <= known


def test_figures_that_are_worked_out_follow_from_the_file(capsys: pytest.CaptureFixture[str], run: Path) -> None:
    for row in table(capsys, run, "iolat"):
        if row["count"] != "0":
            assert float(row["mean_ns"]) == int(row["sum_ns"]) / int(row["count"])
            assert int(row["least_ns"]) <= float(row["p50_ns"]) <= float(row["p99_ns"]) <= int(row["most_ns"])
    metrics = json.loads((run / Files.RECORD).read_text(encoding="utf-8"))["metrics"]
    layers = {row["layer"]: row for row in table(capsys, run, "latency")}
    assert float(layers["rx.lat"]["avg_us"]) == metrics["rx.lat"] and layers["rx.lat"]["p50_us"] == ""
    whole = [row for row in table(capsys, run, "all") if row["table"] == "owner"]
    assert sum(float(row["us_per_query"]) for row in whole) == pytest.approx(metrics["cpuPer"])


def test_every_row_of_a_part_is_there(capsys: pytest.CaptureFixture[str], run: Path) -> None:
    checks = json.loads((run / Files.RECORD).read_text(encoding="utf-8"))["checks"]
    assert [row["name"] for row in table(capsys, run, "checks")] == [check["name"] for check in checks]
    by_table: dict[str, int] = {}
    for row in table(capsys, run, "ladder"):
        by_table[row["table"]] = by_table.get(row["table"], 0) + 1
    ladder = json.loads((run / Files.LADDER).read_text(encoding="utf-8"))
    assert by_table == {"stages": len(ladder["stages"]), "classes": len(ladder["classes"])}


def test_every_figure_has_a_cell_of_its_own(capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path) -> None:
    for row in table(capsys, run, "all"):
        assert not [cell for cell in row.values() if cell.startswith(("{", "["))], row
    # That run is of a workload that only reads, and of an ioflame that did not look at the host's CPUs.
    record = json.loads((run / Files.RECORD).read_text(encoding="utf-8"))
    host = {"switches": 1, "user": 2, "system": 3, "idle": 4, "iowait": 5, "steal": 6}
    writer = {"cpu_ns": 7, "user_ns": 8, "system_ns": 9, "write_calls": 10}
    record["windows"][0]["counters"] |= {"host": host, "roles": {"writer": writer}}
    (tmp_path / Files.RECORD).write_text(json.dumps(record))
    first, *others = [row for row in table(capsys, tmp_path, "windows") if row["table"] == "windows"]
    wanted = {f"host_{name}": str(value) for name, value in host.items()}
    wanted |= {f"roles_writer_{name}": str(value) for name, value in writer.items()}
    assert wanted.items() <= first.items()
    assert others and not any(row[name] for row in others for name in wanted)


@pytest.mark.parametrize("part", [*all_parts(), "owner"])
def test_its_json_is_its_file_and_what_is_not_there_says_why(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path, part: str
) -> None:
    assert main(["show", str(run), part, "--json"]) == EXIT_OK
    shown = json.loads(capsys.readouterr().out)
    own = all_parts().get(part)
    files = ("categories.json",) if own is None else (own.file, *own.needs)
    of_files = {name: json.loads((run / name).read_text(encoding="utf-8")) for name in files}
    assert shown == (of_files if len(files) > 1 else of_files[files[0]])

    (tmp_path / files[-1]).write_text('{"schema": 1, "rest": ')
    shutil.copy(run / Files.RECORD, tmp_path)
    if files[-1] != Files.RECORD:
        assert main(["show", str(tmp_path), part, "--json"]) == 1
        told = capsys.readouterr()
        assert told.out == "" and f"{tmp_path / files[-1]} is not JSON" in told.err
        (tmp_path / files[-1]).unlink()
        assert main(["show", str(tmp_path), part, "--json"]) == 2
        told = capsys.readouterr()
        assert told.out == "" and (own is None or "\n  meaning: " in told.err) and "\n  fix: " in told.err


def test_the_types_of_its_json_are_those_that_the_documentation_names(run: Path) -> None:
    row_of = re.compile(r"^\| ([\w, ]+) \| (a list of )?`(\w+)` in `(\w+)\.py` \|$", re.MULTILINE)
    rows = row_of.findall(USAGE.read_text(encoding="utf-8"))
    parts = {name: row for row in rows for name in row[0].split(", ")}
    assert {*all_parts(), "owner", "leaf", "parts", "latency"} == {*parts, "latency"}
    found = open_run(run)
    for name in {*all_parts()} - {"latency"}:
        _, several, form, module = parts[name]
        named = getattr(importlib.import_module(f"ground.results.{module}"), form)
        if named is not RunRecord:  # a record of an older ioflame is brought up to date as it is opened
            msgspec.json.decode(all_parts()[name].json(found), type=list[named] if several else named)  # type: ignore[valid-type]
    assert isinstance(found.record, RunRecord)


def test_what_did_not_watch_says_why_it_has_no_part(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    record = json.loads((run / Files.RECORD).read_text(encoding="utf-8"))
    record["unobserved"] = [{"kind": "writes", "why": "it only reads", "mend": "a writer", "asked": True}]
    (tmp_path / Files.RECORD).write_text(json.dumps(record))
    assert main(["show", str(tmp_path), "writepath", "--json"]) == 2
    assert "meaning: writes did not watch: it only reads -> a writer\n" in capsys.readouterr().err
    assert main(["show", str(tmp_path), "ladder", "--json"]) == 2
    assert "meaning: ladder watched, but its result is missing: ioflame analyse " in capsys.readouterr().err


def test_what_there_is_not_is_not_shown(capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path) -> None:
    shutil.copy(run / Files.RECORD, tmp_path)
    for part, says in (
        ("latency", f"{tmp_path} has neither {Files.LADDER} nor {Files.IO_LATENCY}"),
        ("ladder", f"{tmp_path} has no {Files.LADDER}: ladder was not measured"),
        ("cpu", "cpu is neither a part of a run nor a view of this one, which has no categories.cpu.json"),
        ("window", "fix: did you mean windows? one of: windows, checks, all"),
    ):
        assert main(["show", str(tmp_path), part]) == 2
        told = capsys.readouterr()
        assert told.out == "" and says in told.err
        assert "one of: windows, checks, all\n" in told.err


def test_a_misspelt_run_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str], run: Path) -> None:
    assert main(["show", str(run.with_name("rum-0.1.0"))]) == 2
    assert f"such as {run}\n" in capsys.readouterr().err


def test_a_name_cannot_break_its_row() -> None:
    rows: list[Row] = [{"x": "one\ttwo\r\nthree", "n": 1}, {"x": "", "y": None}]
    assert tsv({"a": rows}) == "x\tn\ty\none two three\t1\t\n\t\t\n"


def test_a_pager_on_a_terminal_and_plain_text_in_a_pipe(run: Path) -> None:
    pager = {"PAGER": "sed s/^/paged:/"}
    plain = ioflame('show "$1" windows', run, **pager).stdout.decode()
    assert plain.startswith("Baseline windows (") and "paged:" not in plain
    lines = on_terminal("show", run, "windows", **pager).decode().splitlines()
    assert all(line.startswith("paged:") for line in lines)
    assert lines[0].startswith("paged:Baseline windows (") and len(lines) > 5
