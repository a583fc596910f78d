"""What may be compared between runs that were not measured alike: another event, another host, another ioflame.

what differs                         may be compared
event, unit, scope, call graphs      figures of the client and of /proc, and us per query of owner categories (share of
                                     the profile x CPU by the scheduler), headed "two instruments"; no leaf, no frame
host (its id, CPU or kernel)         figures and owner categories, host by host; no frame: one function is another on
                                     another CPU or kernel
version of ioflame                   everything, once both are folded by one version: `ioflame analyse` where perf.data
                                     is kept; no leaf and no frame otherwise

Differences that bar any comparison (workload, engine, threads, settings) are listed by `what_differs.barriers`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ground.results.record import RunRecord
from ground.results.verdicts import Apart, Comparability
from ioflame.analysis.what_differs import barriers, differences

_HOST = ("host_id", "cpu", "kernel")


def comparability(records: Sequence[RunRecord], folded_alike: bool | None = None) -> Comparability:
    """Of runs whose workload, engine and settings agree.

    folded_alike: whether all profiles were folded by one version; None: as the runs' own versions say
    """
    profiles = [record.profile for record in records if record.profile is not None]
    measured = {
        "event": [one.event for one in profiles],
        "unit": [one.unit for one in profiles],
        "scope": [one.scope for one in profiles],
        "call graphs": [one.callgraph for one in profiles],
    }
    told = tuple(_apart(name, values) for name, values in measured.items() if len(set(values)) > 1)
    hosts = tuple(
        _apart(name, values)
        for name in _HOST
        if len(set(values := [record.host.get(name, "unknown") for record in records])) > 1
    )
    versions = [record.ioflame for record in records]
    alike = len(set(versions)) == 1 if folded_alike is None else folded_alike
    refold = () if alike else (f"{_apart('ioflame', versions)}; ioflame analyse RUN folds each anew from perf.data",)
    heading = f"two instruments: {'; '.join(told)}" if told else ""
    return Comparability(heading, (*told, *refold), (*told, *hosts, *refold))


def _apart(name: str, values: Sequence[str]) -> str:
    """`event cycles, cpu-clock`"""
    return f"{name} {', '.join(dict.fromkeys(values))}"


def apart(records: Sequence[RunRecord]) -> Apart:
    """How several runs differ, for a page that shows them side by side."""
    return Apart(differences(records), barriers(records), comparability(records))
