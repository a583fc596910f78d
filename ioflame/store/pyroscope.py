"""A run of the store to Grafana Pyroscope: POST /ingest, with pprof as the body.

https://grafana.com/docs/pyroscope/latest/reference-server-api/: name with labels, from and until in Unix seconds, the
rate of the samples, format. A weight goes as the value that pprof gives a unit for; folded text would be taken for
numbers of samples.
"""

from __future__ import annotations

import math
import re
import shlex
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from folding.foreign import ForeignProfile, encode_pprof
from ground.errors import MeasurementError, UsageError
from ground.results.store.database import Store
from ground.system.http_answer import http_answer
from ioflame.store.export import events_of, facts_of, profile_of

_ANSWER_SECONDS, _MOST_BYTES = 30, 1 << 20
_LABELS = {name: name for name in ("run", "arm", "host", "artifact", "workload")} | {"version": "label"}
# Characters that may not be in a name; those that would end a label.
_NO_NAME, _ENDS = re.compile(r"[^A-Za-z0-9_./-]+"), re.compile(r"[,{}=\s]+")


def push_run(store: Store, run: str, address: str) -> list[str]:
    """A request for each event, since weights of different events do not add up; the names under which they went.

    UsageError where the address or the run is none, MeasurementError where the server does not take it.
    """
    if not address.startswith(("http://", "https://")):
        raise UsageError(f"{address} is no address of a server", mend="--pyroscope http://127.0.0.1:4040")
    facts = facts_of(store, run)
    events = events_of(store, facts["run"])
    if not events:
        raise MeasurementError(f"{facts['run']} has no stacks", means="nothing was sent", mend="ioflame store ls STORE")
    # Values that were imported together are of the same samples.
    together = [events] if facts["source"] == "import" else [[event] for event in events]
    return [_push(store, facts, one, address) for one in together]


def _push(store: Store, facts: Mapping[str, Any], events: Sequence[str], address: str) -> str:
    profile = profile_of(store, facts["run"], events, run_labels=())
    said = {name: facts[column] for name, column in _LABELS.items()} | {"event": "+".join(events)}
    labels = ",".join(f"{name}={_ENDS.sub('_', value)}" for name, value in said.items() if value)
    name = f"{_NO_NAME.sub('_', facts['test'] or facts['workload'])}{{{labels}}}"
    begun = profile.time_ns or facts["begun"]
    # A second where it is not known for how long.
    until = begun + (profile.duration_ns or 10**9)
    query = {"name": name, "from": begun // 10**9, "until": math.ceil(until / 1e9), "format": "pprof"}
    query |= {"spyName": "ioflame", **_rate(profile)}
    _post(f"{address.rstrip('/')}/ingest?{urlencode(query)}", encode_pprof(profile), address)
    return name


def _rate(profile: ForeignProfile) -> dict[str, int]:
    """Samples a second of what was sampled, where the last value is a time and the first one counts."""
    (first, _), (_, unit) = profile.types[0], profile.types[-1]
    counted = sum(one.values[0] for one in profile.samples)
    seconds = sum(one.values[-1] for one in profile.samples) / 1e9
    return (
        {"sampleRate": round(counted / seconds)}
        if first == "samples" and unit in ("ns", "nanoseconds") and seconds
        else {}
    )


def _post(url: str, body: bytes, address: str) -> None:
    request = urllib.request.Request(url, body, {"Content-Type": "application/octet-stream"}, method="POST")
    try:
        http_answer(request, _ANSWER_SECONDS, _MOST_BYTES)
    except OSError as error:
        raise MeasurementError(
            f"{address} does not take the profile: {error}",
            means="profiles that were sent before it are there",
            mend=f"curl -m 5 {shlex.quote(address)}/ready",
        ) from None
