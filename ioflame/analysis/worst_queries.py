"""The longest queries of a window, one by one: their waits and requests from their begin on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from folding.wait_places import WaitPlace, place_of
from ground.results.query_records import BLOCKED, PARTS, QueryRecord, Span
from ground.results.tail import KIND_OF_PART, KINDS, WorstQuery, WorstRequest, WorstWait

_TOLD = ("lock", "condition")


def worst_queries(
    records: Sequence[QueryRecord], places: Mapping[int, WaitPlace], states: Sequence[str]
) -> list[WorstQuery]:
    return [
        WorstQuery(
            record.begin_ns,
            record.ns,
            record.tid,
            record.reads,
            _parts(record, states),
            [_wait(wait, record.begin_ns, places, states) for wait in record.waits],
            [_request(span, record.begin_ns) for span in record.spans if span.is_request],
        )
        for record in records
    ]


def _parts(record: QueryRecord, states: Sequence[str]) -> dict[str, int]:
    """ns by the kinds of rows that it has."""
    found = {KIND_OF_PART[name]: ns for name, ns in zip(PARTS, record.parts, strict=True) if ns and name != "blocked"}
    left = record.parts[BLOCKED]
    for wait in record.waits:
        if wait.part == BLOCKED:
            kind = _kind(states[wait.state])
            found[kind] = found.get(kind, 0) + wait.woken - wait.left
            left -= wait.woken - wait.left
    if left:
        found["sleep"] = found.get("sleep", 0) + left
    return {kind: found[kind] for kind in KINDS if kind in found}


def _kind(state: str) -> str:
    return state if state in _TOLD else "sleep"


def _wait(wait: Span, begin: int, places: Mapping[int, WaitPlace], states: Sequence[str]) -> WorstWait:
    state = states[wait.state]
    kind = _kind(state) if wait.part == BLOCKED else KIND_OF_PART[PARTS[wait.part]]
    where = place_of(places, wait.place, state).where if wait.place else ""
    waker = wait.who if kind in _TOLD else 0
    return WorstWait(wait.left - begin, wait.woken - begin, wait.runs - begin, kind, where, waker)


def _request(span: Span, begin: int) -> WorstRequest:
    begun, issued, completed = (at - begin if at else 0 for at in (span.left, span.woken, span.runs))
    return WorstRequest(begun, issued, completed, span.bytes, f"{span.device >> 20}:{span.device & 0xFFFFF}")
