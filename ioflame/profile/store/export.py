"""A run out of the store: as pprof, as folded stacks, or as the run directory that it was."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from folding.foreign import ForeignFrame, ForeignProfile, ForeignSample, encode_pprof
from ioflame.errors import MeasurementError, UsageError
from ioflame.results.store.database import Store, stored_files
from ioflame.system.atomic_files import check_new, write_whole

__all__ = ("export_run",)

_STACKS = """
    SELECT stack_hi, stack_lo, list({name: name, object: object, file: file, line: line} ORDER BY place)
    FROM (SELECT stack_hi, stack_lo, unnest(frames) AS frame, generate_subscripts(frames, 1) AS place
          FROM stacks SEMI JOIN (SELECT stack_hi, stack_lo FROM samples WHERE run = ?) USING (stack_hi, stack_lo))
    JOIN frames USING (frame) GROUP BY ALL"""
_SAMPLES = """
    SELECT stack_hi, stack_lo, labels, pool, event, unit, sum(weight)::BIGINT, sum(samples)::BIGINT
    FROM samples WHERE run = ? GROUP BY ALL ORDER BY ALL"""


def export_run(store: Store, run: str, out: Path) -> None:
    """out: ends with .pb.gz or .folded, else the directory that is made. UsageError where it is there already."""
    check_new(out, str(out), "another name")
    if not store.holds(run):
        raise UsageError(f"{store.directory} holds no run {run}", mend="ioflame store ls STORE")
    if out.name.endswith(".pb.gz"):
        write_whole(out, encode_pprof(_profile(store, run)))
    elif out.suffix == ".folded":
        write_whole(out, "".join(_folded(_profile(store, run))).encode())
    else:
        _directory(store, run, out)


def _directory(store: Store, run: str, out: Path) -> None:
    files = list(stored_files(store, run))
    if not files:
        raise MeasurementError(
            f"{run} was imported: it never was a run directory", mend="-o FILE.pb.gz, or FILE.folded, for its stacks"
        )
    out.mkdir(0o700, parents=True)
    for name, data in files:
        write_whole(out / Path(name).name, data)


def _profile(store: Store, run: str) -> ForeignProfile:
    """The values of each stack and its labels: as they were imported; of our own runs, samples and weights by event."""
    rows = store.query(_SAMPLES, [run]).rows
    ((settings,),) = store.query("SELECT settings FROM runs WHERE run = ?", [run]).rows
    imported = json.loads(settings)
    stacks = {
        (high, low): tuple(
            ForeignFrame(one["name"], one["object"], one["file"] or "", one["line"] or 0) for one in frames
        )
        for high, low, frames in store.query(_STACKS, [run]).rows
    }
    types = [(name, unit) for name, unit in imported.get("types", ())] or [("samples", "count")]
    if "types" not in imported:
        types += sorted({(event, unit) for _, _, _, _, event, unit, _, _ in rows})
    values: dict[tuple[int, int, str], list[int]] = defaultdict(lambda: [0] * len(types))
    for high, low, labels, pool, event, unit, weight, samples in rows:
        told = labels or (json.dumps([["comm", pool]]) if pool else "")
        of = values[high, low, told]
        of[types.index((event, unit))] += weight
        if "types" not in imported:
            of[0] += samples or 0
    made = ForeignProfile(types, imported.get("time_ns", 0))
    for (high, low, labels), counted in values.items():
        named = tuple(tuple(one) for one in json.loads(labels)) if labels else ()
        # The empty stack has no row in `stacks`: nothing of it could be unnested.
        made.samples.append(ForeignSample(stacks.get((high, low), ()), tuple(counted), named))
    return made


def _folded(profile: ForeignProfile) -> Iterator[str]:
    """By the last type, which is the weight; the name of the thread is the root, as stackfold has it."""
    for sample in profile.samples:
        comm = [str(value) for key, value, *_ in sample.labels if key == "comm"]
        names = [*comm[:1], *(frame.name for frame in sample.frames)]
        yield f"{';'.join(name.replace(';', ':') for name in names)} {sample.values[-1]}\n"
