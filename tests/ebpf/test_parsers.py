"""Other tools' output as it really comes."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from ebpf.bpftrace import SHORTEST_BELOW, MapRows, bounds, read_histograms, read_maps, script, words_of
from ebpf.calls import functions_of
from ebpf.iolat_bcc import parse_biolatency
from ebpf.iolat_bpftrace import decode
from ground.errors import UsageError
from ground.results.io_latency import Device
from ioflame.instruments.runqlat import decode as decode_run_queue

# Captured from bpftrace 0.17: blank lines, a key twice because of what lies behind the string's end, words between.
_BPFTRACE = """
{"type": "attached_probes", "data": {"probes": 10}}
{"type": "printf", "data": "ready\\n"}
stdin:1:33-45: WARNING: comparison of integers of different signs

{"type": "map", "data": {"@ended": 5}}
{"type": "map", "data": {"@took": {"2,RS,1,310": 2, "2,RS,1,311": 1, "2,RS,1,310": 1, "2,FWS,0,400": 1}}}
{"type": "map", "data": {"@took_sum": {"2,RS,1": 70000, "2,RS,1": 20000, "2,FWS,0": 90000}}}
{"type": "map", "data": {"@took_shortest": {"2,RS,1": 4611686018427367904, "2,RS,1": 4611686018427368904, \
"2,FWS,0": 4611686018427297904}}}
{"type": "map", "data": {"@took_max": {"2,RS,1": 26000, "2,RS,1": 20000, "2,FWS,0": 90000}}}
{"type": "map", "data": {"@kind": {"RS,1,8192": 4, "FWS,0,0": 1}}}
{"type": "map", "data": {"@reads": {"1,0,310": 3, "1,1,311": 1}}}
{"type": "map", "data": {"@comm": {"a,b\\n{\\"type\\": \\"map\\"}": 1}}}
{"type": "map", "data": {"@cut off
"""


def test_bpftrace_maps() -> None:
    maps = read_maps(_BPFTRACE)
    assert maps["ended"] == [((), 5)]
    assert sum(count for _, count in maps["took"]) == 5
    assert "cut off" not in maps and len(maps["comm"]) == 1


def test_decoded_rows_add_up_what_is_one_operation() -> None:
    latency = decode(_BPFTRACE, Device(7, 0, "loop0"), [1], False, (0, 2_000_000_000))
    read = latency.row("read", "process").total
    assert (read.count, read.sum_ns, read.least_ns, read.most_ns) == (4, 90000, 19000, 26000)
    assert latency.row("write", "others").total.count == 1
    assert [kind.flags for kind in latency.kinds] == [["sync"], ["preflush", "sync"]]
    assert latency.losses["lost_start"] == latency.losses["lost_kind"] == 0
    assert [sum(n for _, _, n in piece.process) for piece in latency.slices] == [3, 1]


@pytest.mark.long
@pytest.mark.needs("bpftrace")
def test_the_shortest_may_be_long() -> None:
    """bpftrace 0.17 drops a minimum of 2^32 and more, and with it its key: a disk that stalled for 5 s was a crash."""
    texts = [script(name).read_text(encoding="utf-8") for name in ("iolat", "runqlat")]
    ((held,),) = {tuple(set(re.findall(r"_shortest\[.*\] = (.*);", text))) for text in texts}
    counts = " ".join(f"$ns = (uint64){seconds}000000000; @a = {held};" for seconds in (7, 5, 6))
    program = f"BEGIN {{ {counts} exit(); }}"
    done = subprocess.run(["bpftrace", "-f", "json", "-e", program], capture_output=True, text=True, check=True)
    assert [SHORTEST_BELOW - value for _, value in read_maps(done.stdout)["a"]] == [5_000_000_000]


def test_waits_in_the_run_queue_have_their_kinds() -> None:
    maps = {
        "wait": {"3,310": 1, "1,310": 900, "2,310": 5}, "wait_sum": {"1": 1_800_000, "2": 2_000_000},
        "wait_shortest": {"1": SHORTEST_BELOW - 2000, "2": SHORTEST_BELOW - 400_000},
        "wait_max": {"1": 2000, "2": 400_000}, "voluntary": 1000, "no_start": 3,
    }  # fmt: skip
    text = "\n".join(json.dumps({"type": "map", "data": {f"@{name}": rows}}) for name, rows in maps.items())
    found = decode_run_queue(text, 42, (0, 10**9))
    assert {name: wait.count for name, wait in found.waits.items()} == {"woken": 900, "preempted": 5, "started": 0}
    assert (found.voluntary, found.involuntary) == (1000, 0)
    # Of the third kind no more than one duration was kept.
    assert found.losses == {"no_start": 3, "negative": 0, "lost_wait": 1}


def test_a_full_map_is_a_loss() -> None:
    latency = decode(_BPFTRACE.replace('"@ended": 5', '"@ended": 9'), Device(7, 0, "loop0"), [1], False, (0, 1))
    assert latency.losses["lost_start"] == latency.losses["lost_kind"] == 4


@pytest.mark.parametrize("part", ["sum", "shortest", "max"])
def test_a_key_that_one_map_lacks_is_left_out(part: str) -> None:
    """The update of one map failed: its key was a crash, or its durations without a sum."""
    maps: dict[str, MapRows] = {
        "wait": [(("1", "40"), 2), (("2", "41"), 3), (("2", "42"), 1)],
        "wait_sum": [(("1",), 80), (("2",), 170)],
        "wait_shortest": [(("1",), SHORTEST_BELOW - 40), (("2",), SHORTEST_BELOW - 41)],
        "wait_max": [(("1",), 40), (("2",), 45)],
    }
    both = read_histograms(maps, "wait", int)
    figures = [(both[row].count, both[row].sum_ns, both[row].least_ns, both[row].most_ns) for row in (1, 2)]
    assert figures == [(2, 80, 40, 40), (4, 170, 41, 45)]
    lacking = {**maps, f"wait_{part}": [entry for entry in maps[f"wait_{part}"] if entry[0] != ("1",)]}
    assert read_histograms(lacking, "wait", int) == {2: both[2]}
    # Keys that are one row: what is left out of it is all that the lacking key held.
    assert read_histograms(maps, "wait", lambda _: "all")["all"].sum_ns == 250
    assert read_histograms(lacking, "wait", lambda _: "all") == {"all": both[2]}


def test_durations_that_no_bucket_holds_are_counted_where_the_script_did() -> None:
    maps: dict[str, MapRows] = {
        "rung": [(("1", "40"), 2), (("1", "41"), 3)],
        "rung_count": [(("1",), 6), (("2",), 0)],
        "rung_sum": [(("1",), 243), (("2",), 0)],
        "rung_shortest": [(("1",), SHORTEST_BELOW - 40)],
        "rung_max": [(("1",), 41)],
    }
    found = read_histograms(maps, "rung", int)
    assert list(found) == [1]
    assert (found[1].count, found[1].sum_ns, sum(count for _, _, count in found[1].buckets)) == (6, 243, 5)


def test_a_key_that_one_map_lacks_is_a_loss() -> None:
    text = _BPFTRACE.replace('"@ended": 5', '"@ended": 8').replace('{"RS,1,310": 2', '{"RM,1,310": 3, "RS,1,310": 2')
    latency = decode(text, Device(7, 0, "loop0"), [1], False, (0, 1))
    assert latency.row("read", "process").total.count == 4
    assert latency.losses["lost_start"] == 3


def test_words_leave_out_the_limit_that_does_not_matter() -> None:
    said = "ERROR: couldn't set RLIMIT_MEMLOCK for bpftrace\n\nERROR: tracepoint not found\n"
    assert words_of(said) == "ERROR: tracepoint not found"


def test_buckets_follow_one_another() -> None:
    end = 0
    for bucket in range(1000):
        low, high = bounds(bucket)
        assert low == end and (high - low == 1 or (high - low) * 32 <= low)
        end = high


def test_biolatency_text() -> None:
    text = """Tracing block device I/O... Hit Ctrl-C to end.

flags = ReadAhead-Read
     usecs               : count    distribution
         0 -> 1          : 0        |                                        |
        32 -> 63         : 3        |****                                    |
flags = Sync-Read
     usecs               : count    distribution
        64 -> 127        : 1        |****************************************|
libbpf: a warning in between
flags = Write
     usecs               : count    distribution
         2 -> 3          : 2        |****************************************|
"""
    parsed = parse_biolatency(text)
    assert parsed["read"][""].buckets == [(32000, 64000, 3), (64000, 128000, 1)]
    assert parsed["read"]["readahead"].count == 3
    assert parsed["write"][""].count == 2


def test_a_name_with_arguments_is_refused_before_anything_is_looked_for() -> None:
    with pytest.raises(UsageError, match="is no qualified name"):
        functions_of("space::Class::get(int)", [1])
