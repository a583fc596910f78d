"""A run out of the store: as pprof, as folded stacks, or as the run directory that it was."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from folding.foreign import ForeignFrame, ForeignProfile, ForeignSample, encode_pprof
from ground.errors import MeasurementError, UsageError
from ground.results.store.database import Store, stored_files
from ground.system.atomic_files import check_new, write_whole

_STACKS = """
    SELECT stack_hi, stack_lo, list({name: name, object: object, file: file, line: line} ORDER BY place)
    FROM (SELECT stack_hi, stack_lo, unnest(frames) AS frame, generate_subscripts(frames, 1) AS place
          FROM stacks SEMI JOIN (SELECT stack_hi, stack_lo FROM samples WHERE run = ?) USING (stack_hi, stack_lo))
    JOIN frames USING (frame) GROUP BY ALL"""
_SAMPLES = """
    SELECT stack_hi, stack_lo, labels, pool, event, unit, sum(weight)::BIGINT, sum(samples)::BIGINT
    FROM samples WHERE run = ? AND event IN (SELECT unnest(?)) GROUP BY ALL ORDER BY ALL"""
_FACTS = """
    WITH observed AS (SELECT run, max(end_ns) - min(start_ns) AS lasted FROM windows GROUP BY run)
    SELECT run, arm, host, artifact, workload, test, label, source, settings, epoch_ns(created) AS begun,
        coalesce(lasted, 0) AS lasted
    FROM runs LEFT JOIN observed USING (run) WHERE run = ?"""
_LATEST = "SELECT run FROM runs SEMI JOIN samples USING (run) ORDER BY created DESC, run DESC LIMIT 1"
LATEST = "latest"
# What a name in folded text may not hold, as stackfold writes it.
_FOLDED = str.maketrans(";\n\r", ":  ")
# Labels of samples of our own runs: columns of their run.
_RUN_LABELS = ("run", "arm", "host", "artifact", "workload")


def export_run(store: Store, run: str, out: Path, *, replace: bool = False) -> None:
    """run: `latest` is the newest that has stacks; out: ends with .pb.gz or .folded, else the directory that is made.

    UsageError where it is there already, unless a file is to be replaced: whoever reads it has the old or the new one.
    """
    stacks = out.name.endswith(".pb.gz") or out.suffix == ".folded"
    if not (replace and stacks):
        check_new(out, str(out), "another name")
    if stacks:
        run = facts_of(store, run)["run"]
        profile = profile_of(store, run, events_of(store, run))
        data = encode_pprof(profile) if out.name.endswith(".pb.gz") else "".join(_folded(profile)).encode()
        write_whole(out, data)
    else:
        _directory(store, facts_of(store, run)["run"], out)


def facts_of(store: Store, run: str) -> dict[str, Any]:
    """What its row in `runs` says; begun: Unix ns, lasted: ns from its first window to its last, 0 where none is known.

    UsageError where the store does not hold it.
    """
    if run == LATEST:
        run = next((name for (name,) in store.query(_LATEST).rows), run)
    rows = store.query(_FACTS, [run]).as_dicts()
    if not rows:
        raise UsageError(f"{store.directory} holds no run {run}", mend="ioflame store ls STORE")
    return rows[0]


def events_of(store: Store, run: str) -> list[str]:
    return [name for (name,) in store.query("SELECT DISTINCT event FROM samples WHERE run = ? ORDER BY 1", [run]).rows]


def _directory(store: Store, run: str, out: Path) -> None:
    files = list(stored_files(store, run))
    if not files:
        raise MeasurementError(
            f"{run} was imported: it never was a run directory", mend="-o FILE.pb.gz, or FILE.folded, for its stacks"
        )
    out.mkdir(0o700, parents=True)
    for name, data in files:
        write_whole(out / Path(name).name, data)


def profile_of(
    store: Store, run: str, events: Sequence[str], run_labels: Sequence[str] = _RUN_LABELS
) -> ForeignProfile:
    """The values of each stack and its labels: as they were imported; of our own runs, samples and weights by event.

    run_labels: columns of their run that samples of our own runs have as labels
    """
    rows = store.query(_SAMPLES, [run, list(events)]).rows
    facts = facts_of(store, run)
    imported = json.loads(facts["settings"])
    own = "types" not in imported
    stacks = {
        (high, low): tuple(
            ForeignFrame(frame["name"], frame["object"], frame["file"] or "", frame["line"] or 0) for frame in frames
        )
        for high, low, frames in store.query(_STACKS, [run]).rows
    }
    # As stackfold has it: folded text has weights alone.
    counted = own and any(samples is not None for *_, samples in rows)
    types = [("samples", "count")] if counted else []
    types += sorted({row[4:6] for row in rows}) if own else [(name, unit) for name, unit in imported["types"]]
    begun, lasted = (facts["begun"], facts["lasted"]) if own else (imported["time_ns"], imported.get("duration_ns", 0))
    profile = ForeignProfile(types, begun, duration_ns=lasted)
    columns = profile.columns
    of_run = [[name, facts[name]] for name in run_labels if facts[name]] if own else []
    values: dict[tuple[int, int, str], list[int]] = defaultdict(lambda: [0] * len(types))
    for high, low, labels, pool, event, unit, weight, samples in rows:
        own_labels = sorted([["comm", pool]] * bool(pool) + of_run)
        counts = values[high, low, labels or (json.dumps(own_labels) if own_labels else "")]
        counts[columns.index((event, unit))] += weight
        if counted:
            counts[0] += samples or 0
    for (high, low, labels), counts in values.items():
        # The empty stack has no row in `stacks`: nothing of it could be unnested.
        named = tuple(tuple(label) for label in json.loads(labels)) if labels else ()
        profile.samples.append(ForeignSample(stacks.get((high, low), ()), tuple(counts), named))
    return profile


def _folded(profile: ForeignProfile) -> Iterator[str]:
    """By the last type, which is the weight; the name of the thread is the root, as stackfold has it."""
    for sample in profile.samples:
        comm = [str(value) for key, value, *_ in sample.labels if key == "comm"]
        names = [*comm[:1], *(frame.name for frame in sample.frames)]
        yield f"{';'.join(name.translate(_FOLDED) for name in names)} {sample.values[-1]}\n"
