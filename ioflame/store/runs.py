"""The rows of a run directory for the store: totals of its samples are those of run.json, to the unit."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import timezone
from pathlib import Path

from folding.stackfold import categorised_profile
from ground.errors import MeasurementError
from ground.results.accounts import accounts_in
from ground.results.cells import CellsRecord
from ground.results.comparison import Block, Comparison, ComparisonRun, Process, Session
from ground.results.created import created_at
from ground.results.differences import Decision
from ground.results.files import Files
from ground.results.metrics import OBSERVED, window_metrics
from ground.results.off_cpu import read_wall_clock
from ground.results.profile import Folded, read_profile
from ground.results.record import Counters, RunRecord, Window
from ground.results.run import Run, open_run
from ground.results.store.database import RunTables
from ground.results.store.ids import FrameTable
from ground.results.verdicts import VERDICT, Verdicts
from ground.system.atomic_files import file_sha256, read_json, read_whole
from ioflame.analysis.compare.figures import of_the_process
from ioflame.instruments import INSTRUMENTS
from ioflame.stages.run import of_queries
from workloads.cells import COMMAND
from workloads.registry import rules_named

# Kept whole. Recordings are not: they hold copies of the process's memory.
_KEPT = (".json", ".txt", ".csv")
_NOT_KEPT = (Files.PMP_RAW,)


def run_name(created: str, what: str, *identity: object) -> str:
    """`20261123T001500-readrandom-1a2b3c4d`: the same whenever and wherever the same run is added.

    Its time is that of its directory's name: the host's own, while `created` in the store is UTC.
    """
    digits = "".join(letter for letter in created[:19] if letter.isdigit())
    words = "".join(letter if letter.isalnum() else "_" for letter in what)[:40]
    named = hashlib.blake2b(repr(identity).encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()
    return f"{digits[:8]}T{digits[8:]}-{words}-{named}"


def utc(created: str) -> str:
    """A time with its zone as the store keeps it: hosts of several zones are on one clock."""
    try:
        told = created_at(created)
        told = told if told.tzinfo else told.replace(tzinfo=timezone.utc)
        return told.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    except (ValueError, OverflowError) as error:
        raise MeasurementError(
            f"the record says that it was made at {created!r}: {error}", means="it is broken; nothing of it was added"
        ) from None


def run_tables(run: Run) -> RunTables:
    """A run of `ioflame profile`."""
    return _of_run(run, RunTables(_name(run.record), utc(run.record.created)[:10]), {})


def experiment_tables(directory: Path, record: CellsRecord | None) -> list[RunTables]:
    """A run for each measured step of an experiment. record: None of one that had no cells yet

    Builds of one version are called as the experiment calls them, or they would be one version of it, and so are cells
    that are command lines, whose runs lie one directory deeper.
    """
    builds = record.builds if record is not None else {}
    versions = [facts.get("version", "") for facts in builds.values()]
    shared = {name for name, facts in builds.items() if versions.count(facts.get("version", "")) > 1}
    named = {
        place: name
        for run in (record.runs if record is not None else ())
        for place in run.runs.values()
        for name in shared
        if run.cell.endswith(f", {name}")
    }
    named |= {run.runs[COMMAND]: run.cell for run in (record.runs if record else ()) if COMMAND in run.runs}
    made = []
    runs = (*directory.glob(f"*/{Files.RECORD}"), *directory.glob(f"*/*/{Files.RECORD}"))
    for path in sorted(found.parent for found in runs):
        run = open_run(path)
        relative = str(path.relative_to(directory))
        place = {"label": named[relative]} if relative in named else {}
        made.append(_of_run(run, RunTables(_name(run.record), utc(run.record.created)[:10]), place))
    return made


def comparison_tables(
    going: ComparisonRun, labels: Mapping[str, str] | None = None, source: str = "ioflame"
) -> list[RunTables]:
    """A run for each process of every whole session, and one for the comparison itself, with its verdicts.

    labels: what the arms are called in the store, by their values; without one an arm has its own name
    """
    record = going.record
    campaign = run_name(record.created, f"compare {record.workload}", record.host.get("host_id"), record.plan.seed)
    made = []
    for session in record.whole_sessions():
        for process in session.processes:
            run = open_run(going.directory / process.directory)
            tables = RunTables(_name(run.record), utc(run.record.created)[:10])
            place = _place(record, campaign, session, process) | {"source": source}
            place["label"] = (labels or {}).get(record.arm(process.arm).value, process.arm)
            made.append(_of_run(run, tables, place, _blocks_of(session, process)))
    return [*made, _verdicts(going, campaign)]


def _name(record: RunRecord) -> str:
    begun = record.windows[0].start_ns if record.windows else 0
    host = record.host.get("host_id"), record.host.get("boot_id")
    return run_name(record.created, record.workload, *host, record.created, record.pid, begun)


def _place(record: Comparison, campaign: str, session: Session, process: Process) -> dict[str, object]:
    arm = record.arm(process.arm)
    return {
        "campaign": campaign, "session": session.number, "arm": arm.name, "base": record.base.name,
        "twin": bool(arm.twin_of), "factor": record.factor.name, "label": arm.name, "schedule": record.plan.schedule,
        "seed": record.plan.seed, "tree": record.plan.tree, "test": _test(record.workload, record.options, arm.threads),
    }  # fmt: skip


def _blocks_of(session: Session, process: Process) -> dict[int, tuple[int, int, Block]]:
    """By the begin of a window of the process: number of its block, its place there, and the block."""
    return {
        one.window.start_ns: (number, one.position, block)
        for number, block in enumerate(session.blocks)
        for one in block.windows
        if one.arm == process.arm
    }


def _of_run(
    run: Run, tables: RunTables, place: Mapping[str, object], blocks: Mapping[int, tuple[int, int, Block]] | None = None
) -> RunTables:
    record = run.record
    _what_ran(run, tables, place)
    plain: list[Window] = []
    for number, window in enumerate(record.windows):
        block = (blocks or {}).get(window.start_ns)
        dropped = block[2].dropped if block else ""
        tables.add(
            "windows", window=number, block=block and block[0], position=block and block[1], kind=window.kind,
            start_ns=window.start_ns, end_ns=window.end_ns, dropped=dropped, **_counted(window.counters),
        )  # fmt: skip
        if window.kind == "plain" and not dropped:
            plain.append(of_the_process(window) if blocks else window)
    _seconds(run, tables)
    _figures(run, tables, window_metrics(plain, record.threads))
    for check in record.checks:
        tables.add("checks", name=check.name, verdict=check.verdict.value, value=check.value)
    frames = FrameTable()
    for kind, (name, event) in ((one.name, one.profile) for one in INSTRUMENTS.values() if one.profile is not None):
        folded = _profile(run, name)
        if folded is not None:
            places = [place for place, window in enumerate(record.windows) if window.kind == kind]
            facts = record.profile
            named = event or ((facts.event, facts.unit) if facts else None)
            sample_rows(folded, tables, frames, event=named, window=places[0] if len(places) == 1 else None)
            if name == Files.PROFILE:
                _categories(of_queries(run, folded), tables, facts.event if facts else "samples")
    if run.path(Files.WALL_CLOCK).exists():
        for row in read_wall_clock(run.path(Files.WALL_CLOCK)).rows:
            tables.add("waits", state=row.state, category=row.category, ns=row.ns, us_per_query=row.us_per_query)
    tables.rows["frames"], tables.rows["stacks"] = list(frames.frames.values()), list(frames.stacks.values())
    _keep(run.directory, tables)
    return tables


def _figures(run: Run, tables: RunTables, plain: Mapping[str, float]) -> None:
    """plain: the figures of the plain windows"""
    record = run.record
    observed = {name: record.metrics[name] for name in OBSERVED if name in record.metrics}
    for name, value in {**plain, **observed}.items():
        found = record.intervals.get(name)
        tables.add(
            "figures", metric=name, value=value, low=found and found.low, high=found and found.high, n=found and found.n
        )
    for account in accounts_in(run.directory):
        for row, value in account.by_work().items():
            tables.add("figures", metric=account.row_name(account.name, row), value=value, low=None, high=None, n=None)


def _profile(run: Run, name: str) -> Folded | None:
    """None where there is none. Runs of ioflame 0.1.0 have folded stacks in its place."""
    if name == Files.PROFILE and run.path(Files.FOLDED).exists():
        rules = rules_named(run.record.engine).categories
        return categorised_profile(
            run.path(name), rules, folded=run.path(Files.FOLDED), counts=run.path(Files.SAMPLE_COUNTS)
        )
    return read_profile(run.path(name)) if run.path(name).exists() else None


def _what_ran(run: Run, tables: RunTables, place: Mapping[str, object]) -> None:
    record = run.record
    tools, host = record.tools, record.host
    label = tools.get("engine", "unknown")
    settings = json.dumps({"options": record.options, "database": record.database.as_text()}, sort_keys=True)
    raw = run.path(Files.PERF_DATA)
    built = artifact_row(tools, label)
    # Of a process that was attached to, its number and how many threads it has then are of that one alone.
    workload = record.workload.removesuffix(f"-{record.pid}") if record.target else record.workload
    test = workload if record.target else _test(workload, record.options, record.threads)
    row: dict[str, object] = {
        "campaign": "", "session": None, "arm": "", "base": "", "twin": False, "created": utc(record.created),
        "engine": record.engine, "workload": workload, "test": test, "threads": record.threads, "factor": "",
        "label": label, "host": _host(host), "artifact": built["artifact"], "tree": record.database.levels or "",
        "probability": 1.0, "ioflame": record.ioflame, "source": "ioflame", "settings": settings,
        "raw_path": str(raw) if raw.exists() else "", "raw_sha256": file_sha256(raw) if raw.exists() else "",
    }  # fmt: skip
    tables.add("runs", **{**row, **place})
    tables.add("hosts", host=_host(host), boot=host.get("boot_id", ""), facts=json.dumps(host, sort_keys=True))
    tables.add("artifacts", **built)


def artifact_row(tools: Mapping[str, str], version: str) -> dict[str, str]:
    """Of what a run records of its build. Of older runs none is known: then the build is its version."""
    return {
        "artifact": tools.get("engine_artifact") or f"version {version}", "version": version,
        "build_id": tools.get("engine_library_build_id") or tools.get("engine_build_id", ""),
        "compiler": tools.get("engine_compiler", ""), "flags": tools.get("engine_flags", ""),
        "lto": tools.get("engine_lto", ""), "allocator": tools.get("allocator", ""),
        "facts": json.dumps(tools, sort_keys=True),
    }  # fmt: skip


def _host(host: Mapping[str, str]) -> str:
    return host.get("host_id") or f"{host.get('cpu', 'unknown')} x{host.get('cpus', '?')}"


def _test(workload: str, options: Mapping[str, str], threads: int) -> str:
    """A library that our client was given is one test with other such libraries, and none with a client of its own."""
    client = "library" if options.get("library") else ""
    return " ".join(filter(None, [workload, options.get("configuration", ""), f"t{threads}", client]))


def _counted(counters: Counters) -> dict[str, object]:
    return {
        "queries": counters.queries, "cpu_ns": counters.cpu_ns, "user_ns": counters.user_ns,
        "system_ns": counters.system_ns, "reads": counters.storage_reads, "read_bytes": counters.storage_read_bytes,
        "read_ms": counters.storage_read_ms, "runq_ns": counters.runqueue_wait_ns,
        "voluntary": counters.voluntary_switches, "involuntary": counters.involuntary_switches,
        "steal_ns": counters.steal_ns,
    }  # fmt: skip


def _seconds(run: Run, tables: RunTables) -> None:
    at = 0
    windows = run.record.windows
    begun: dict[int, int] = defaultdict(int)
    for one in sorted(run.series(), key=lambda second: second.start_ns):
        while at + 1 < len(windows) and windows[at + 1].start_ns <= one.start_ns:
            at += 1
        tables.add(
            "seconds", window=at if windows else None, second=begun[at], kind=one.kind, start_ns=one.start_ns,
            end_ns=one.end_ns, **_counted(one.counters),
        )  # fmt: skip
        begun[at] += 1


def sample_rows(
    folded: Folded,
    tables: RunTables,
    frames: FrameTable,
    *,
    event: tuple[str, str] | None = None,
    window: int | None = None,
) -> None:
    """The samples of a folded profile, second by second where it knows them.

    event: its name and unit, in place of the profile's own
    """
    statistics = folded.statistics
    named, unit = event or (statistics.event or "samples", statistics.unit)
    own = []
    for stack in folded.each_stack():
        places = [frames.frame(name, obj) for name, obj in zip(stack.frames, stack.objects, strict=True)]
        high, low = frames.stack(places)
        own.append({
            "run": tables.run, "window": window, "event": named, "unit": unit, "pool": stack.comm,
            "state": stack.state, "labels": "", "stack_hi": high, "stack_lo": low,
        })  # fmt: skip
    counted = statistics.samples > 0
    tables.rows.setdefault("samples", []).extend(
        {**own[stack], "second": second, "weight": weight, "samples": samples if counted else None}
        for stack, second, weight, samples in _by_second(folded)
    )


def _by_second(folded: Folded) -> Iterator[tuple[int, int | None, int, int]]:
    """Stack, second, weight and samples; no second where the profile has none, or they are not all of it."""
    slices, stacks = folded.slices, folded.stacks
    if slices is not None and sum(slices.weight) == sum(stacks.weight):
        return zip(slices.stack, slices.slice, slices.weight, slices.samples, strict=True)
    return zip(itertools.count(), itertools.repeat(None), stacks.weight, stacks.samples)


def _categories(folded: Folded, tables: RunTables, event: str) -> None:
    for name, view in folded.views.items():
        categories = [row["name"] for row in view.report["rows"]]
        rules = hashlib.blake2b("\n".join(categories).encode(), digest_size=8).hexdigest()
        sums: dict[tuple[int | None, int], list[int]] = defaultdict(lambda: [0, 0])
        for stack, second, weight, samples in _by_second(folded):
            total = sums[second, view.row[stack]]
            total[0] += weight
            total[1] += samples
        for (second, row), (weight, samples) in sums.items():
            tables.add(
                "categories", event=event, second=second, view=name, category=categories[row], weight=weight,
                samples=samples, rules=rules,
            )  # fmt: skip


def _keep(directory: Path, tables: RunTables) -> None:
    for path in sorted(directory.iterdir()):
        if path.suffix in _KEPT and path.is_file() and path.name not in _NOT_KEPT:
            tables.add("files", name=path.name, data=read_whole(path))


def _verdicts(going: ComparisonRun, campaign: str) -> RunTables:
    """The comparison as a run of its own: no window, its results and its files."""
    record = going.record
    tables = RunTables(campaign, utc(record.created)[:10])
    tables.add(
        "runs", campaign=campaign, arm="", base=record.base.name, twin=False, created=utc(record.created),
        engine=record.engine, workload=record.workload,
        test=_test(record.workload, record.options, record.base.threads), threads=record.base.threads,
        factor=record.factor.name, label="", host=_host(record.host), artifact="", tree=record.plan.tree,
        probability=1.0, schedule=record.plan.schedule, seed=record.plan.seed, ioflame=record.ioflame,
        source="comparison", raw_path="", raw_sha256="", settings=json.dumps(asdict(record.plan), sort_keys=True),
    )  # fmt: skip
    try:
        found = read_json(going.directory / VERDICT, Verdicts)
    except MeasurementError:
        found = None
    for one in found.arms if found else []:
        for twin, decisions in ((False, one.decisions), (True, one.twin)):
            for metric, decision in decisions.items():
                _result(tables, metric, twin, decision, found.rule if found else "")
    _keep(going.directory, tables)
    return tables


def _result(tables: RunTables, metric: str, twin: bool, decision: Decision, rule: str) -> None:
    found = decision.difference
    named = ("ratio", "low", "high", "same_low", "same_high", "p")
    tables.add(
        "results", metric=metric, base=decision.base, arm=decision.arm, twin=twin, units=found.sessions if found else 0,
        verdict=decision.outcome.value, rule=rule, **{name: getattr(found, name) if found else None for name in named},
    )  # fmt: skip
