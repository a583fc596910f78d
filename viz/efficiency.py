"""The tables of the IO-efficiency experiment: fio, the database, what it costs more, the models, the categories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ioflame.checks import Check, Verdict
from ioflame.experiment import Baseline, ExperimentRecord, StepRecord
from ioflame.host import describe_host
from ioflame.metrics import LEGEND, cpu_profiled
from ioflame.run import Categories, RunRecord
from ioflame.stats import derive, median, predicted_iops
from viz.columns import aligned, folded

__all__ = ("MeasuredStep", "render_efficiency")

_PROOFS = (
    "levels",
    "levels after",
    "compaction in the log",
    "writes while reading",
    "background threads",
    "keys found",
    "folded = perf report",
    "filters unused",
)


@dataclass(frozen=True)
class MeasuredStep:
    """A measured step with its run: record, owner view and leaf view."""

    step: StepRecord
    record: RunRecord
    owner: Categories
    leaf: Categories


def render_efficiency(experiment: ExperimentRecord, measured: Sequence[MeasuredStep], width: int | None = None) -> str:
    """All tables as text, no line wider than `width`. Figures of several repeats are medians."""
    users = sorted({m.step.users for m in measured})
    steps = list(dict.fromkeys(m.step.step for m in measured))
    parts = [_head(experiment, measured), _fio_table(experiment, users, width)]
    parts += [_database_table(experiment, measured, steps, users, width)]
    parts.append(_model_table(experiment, measured, steps, users, width))
    for count in users:
        for title, view in (("owner", lambda m: m.owner), ("leaf", lambda m: m.leaf)):
            parts.append(_category_table(measured, steps, count, title, view, width))
    parts.append(_orders(measured, steps, users))
    parts.append(_proof_table(measured, width))
    return folded("\n\n".join(parts), width) + "\n"


def _head(experiment: ExperimentRecord, measured: Sequence[MeasuredStep]) -> str:
    database = measured[0].record.database.get("description", "") if measured else ""
    return (
        f"{experiment.name}: {experiment.about}\n{experiment.created}; {describe_host(experiment.host)}; "
        f"RocksDB {experiment.tools.get('engine', '?')}"
        f"{', assertions on' if experiment.tools.get('engine_assertions') == 'yes' else ''}\n{database}"
    )


def _baselines(experiment: ExperimentRecord, users: int) -> list[Baseline]:
    return [s.baseline for s in experiment.steps if s.kind == "baseline" and s.users == users and s.baseline]


def _fio(experiment: ExperimentRecord, users: int) -> Baseline:
    """The medians of fio with so many users, over the whole experiment."""
    runs = _baselines(experiment, users)
    return Baseline(*(median([getattr(run, name) for run in runs]) for name in Baseline.__dataclass_fields__))  # type: ignore[arg-type]


def _fio_table(experiment: ExperimentRecord, users: Sequence[int], width: int | None) -> str:
    rows = [["users", "iops", "reqsz", "usPer", "syPer", "cpuPer", "lat", "io.lat", "runs", "iops least..most"]]
    for count in users:
        fio, runs = _fio(experiment, count), _baselines(experiment, count)
        rates = [run.iops for run in runs]
        rows.append([
            str(count), f"{fio.iops:.0f}", f"{fio.reqsz:.1f}", f"{fio.us_per:.3f}", f"{fio.sy_per:.3f}",
            f"{fio.cpu_per:.3f}", f"{fio.lat:.2f}", f"{fio.io_lat:.2f}", str(len(runs)),
            f"{min(rates):.0f}..{max(rates):.0f}",
        ])  # fmt: skip
    return (
        "fio, random reads of the database's own files (sync, O_DIRECT, one read in flight per user)\n"
        + aligned(rows, width)
        + "\n  usPer, syPer, cpuPer: CPU us per read; lat: us per read by fio; io.lat: by the device's counter, us"
    )  # fmt: skip


def _metric(measured: Sequence[MeasuredStep], step: str, users: int, name: str) -> float:
    values = [m.record.metrics[name] for m in measured if (m.step.step, m.step.users) == (step, users)]
    return median(values)


def _per_read(measured: Sequence[MeasuredStep], step: str, users: int, name: str) -> float:
    """A CPU figure per storage read, as the source document has it, from the one per query."""
    return _metric(measured, step, users, name) / _metric(measured, step, users, "readsPerQuery")


def _database_table(
    experiment: ExperimentRecord,
    measured: Sequence[MeasuredStep],
    steps: Sequence[str],
    users: Sequence[int],
    width: int | None,
) -> str:
    heads = ["test", "users", "qps", "iops", "reqsz", "usPer", "syPer", "cpuPer", "rx.lat", "io.lat"]
    rows = [[*heads, "io.eff", "us.inc", "cpu.inc", "proofs"]]
    for count in users:
        fio = _fio(experiment, count)
        for step in steps:
            plain = {n: _metric(measured, step, count, n) for n in ("qps", "iops", "reqsz", "rx.lat", "io.lat")}
            us, sy = (_per_read(measured, step, count, n) for n in ("usPer", "syPer"))
            derived = derive(plain["iops"], us, us + sy, fio.iops, fio.us_per, fio.cpu_per)
            rows.append([
                step, str(count), f"{plain['qps']:.0f}", f"{plain['iops']:.0f}", f"{plain['reqsz']:.1f}",
                f"{us:.3f}", f"{sy:.3f}", f"{us + sy:.3f}", f"{plain['rx.lat']:.2f}", f"{plain['io.lat']:.2f}",
                f"{derived.io_eff:.3f}", f"{derived.us_inc:.3f}", f"{derived.cpu_inc:.3f}",
                _verdict_of(measured, step, count),
            ])  # fmt: skip
    legend = [f"  {name}: {LEGEND[name]}" for name in ("qps", "iops", "reqsz", "rx.lat", "io.lat")]
    return "\n".join([
        "RocksDB (plain windows; usPer, syPer and cpuPer per storage read, as in the source document)",
        aligned(rows, width),
        *legend,
        "  io.eff: iops / fio's iops with as many users; us.inc, cpu.inc: CPU us per read beyond fio's",
    ])  # fmt: skip


def _verdict_of(measured: Sequence[MeasuredStep], step: str, users: int) -> str:
    checks = [c for m in measured if (m.step.step, m.step.users) == (step, users) for c in m.record.checks]
    return "FAILED" if any(c.verdict is Verdict.FAILED for c in checks) else "hold"


def _model_table(
    experiment: ExperimentRecord,
    measured: Sequence[MeasuredStep],
    steps: Sequence[str],
    users: Sequence[int],
    width: int | None,
) -> str:
    rows = [["test", "users", "actual iops", "fio.lat + cpu.inc", "off", "io.lat + cpuPer", "off"]]
    for count in users:
        fio = _fio(experiment, count)
        for step in steps:
            actual = _metric(measured, step, count, "iops")
            cpu = _per_read(measured, step, count, "cpuPer")
            post = predicted_iops(count, fio.lat, cpu - fio.cpu_per)
            own = predicted_iops(count, _metric(measured, step, count, "io.lat"), cpu)
            rows.append([
                step, str(count), f"{actual:.0f}", f"{post:.0f}", f"{100 * (post / actual - 1):+.1f} %",
                f"{own:.0f}", f"{100 * (own / actual - 1):+.1f} %",
            ])  # fmt: skip
    return (
        "Models: IOPS of users that wait for one read after the other, from the parts of one read\n"
        + aligned(rows, width)
        + "\n  the first is the source document's; what either is off by is time that is neither CPU nor device:"
        + "\n  the wake-up, the run queue, and queries that read nothing or more than once"
    )  # fmt: skip


def _category_table(
    measured: Sequence[MeasuredStep],
    steps: Sequence[str],
    users: int,
    title: str,
    view: Callable[[MeasuredStep], Categories],
    width: int | None,
) -> str:
    columns: list[tuple[MeasuredStep, dict[str, float]]] = []
    for step in steps:
        # One profile a column: repeats are pooled by weight once their stacks are, so the first stands for them.
        of_step = [m for m in measured if (m.step.step, m.step.users) == (step, users)]
        columns.append((of_step[0], {row.name: row.share for row in view(of_step[0]).rows}))
    names = list(dict.fromkeys(name for _, shares in columns for name in shares))
    rows = [[title, *(head for step in steps for head in (f"{step} %", "us/query"))]]
    for name in names:
        cells = []
        for found, shares in columns:
            share = shares.get(name, 0.0)
            cpu = cpu_profiled(found.record.metrics, found.record.profile.mode if found.record.profile else "all")[0]
            cells += [f"{share:.2f}", f"{share / 100 * (cpu or 0.0):.2f}"]
        if any(cell != "0.00" for cell in cells) or title == "owner":
            rows.append([name, *cells])
    profiles = [(step, found.record.profile) for step, (found, _) in zip(steps, columns, strict=True)]
    samples = ", ".join(f"{step} n={profile.samples if profile else 0:,}" for step, profile in profiles)
    return f"Categories, {title} view, {users} user{'s' * (users != 1)} ({samples})\n" + aligned(rows, width)


# What the source document's table shows from its first to its last step.
_PUBLISHED_ORDERS = (("bloom", "falls"), ("libc+k", "rises"))


def _orders(measured: Sequence[MeasuredStep], steps: Sequence[str], users: Sequence[int]) -> str:
    """Do the shares move as published? With the 95 % interval of a difference of two shares (normal, from n)."""
    lines = ["Orders of the published table, from the first step to the last (share of weight, 95 % interval by n)"]
    for count in users:
        first, last = (
            next(m for m in measured if (m.step.step, m.step.users) == (step, count)) for step in (steps[0], steps[-1])
        )
        for name, published in _PUBLISHED_ORDERS:
            (a, n), (b, k) = (_share(m, name) for m in (first, last))
            spread = 1.96 * ((a * (1 - a) / n + b * (1 - b) / k) ** 0.5) if n and k else 1.0
            if abs(b - a) <= spread:
                seen = "no difference seen"
            else:
                seen = "holds" if (b < a) == (published == "falls") else "DOES NOT HOLD"
            lines.append(
                f"  {count} user{'s' * (count != 1)}: {name} {published}: {100 * a:.2f} -> {100 * b:.2f} % "
                f"(+-{100 * spread:.2f}): {seen}"
            )
    return "\n".join(lines)


def _share(measured: MeasuredStep, name: str) -> tuple[float, int]:
    samples = measured.record.profile.samples if measured.record.profile else 0
    return next(row.share / 100 for row in measured.owner.rows if row.name == name), samples


def _proof_table(measured: Sequence[MeasuredStep], width: int | None) -> str:
    rows = [["step", *(_PROOFS)]]
    for m in measured:
        checks: dict[str, Check] = {check.name: check for check in m.record.checks}
        rows.append([m.step.id, *(checks[n].verdict.value if n in checks else "-" for n in _PROOFS)])
    return "Proofs (each with its value among the checks of its run.json)\n" + aligned(rows, width)
