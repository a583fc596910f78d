"""The files of clients: lines as the clients' own sources and documentation have them, options, and what is refused.

YCSB, memtier_benchmark and redis-benchmark are known by such lines alone; the others are run by the end-to-end tests.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ground.errors import UsageError
from tests.places import ROOT
from workloads.counted_clients import CountedClient, client_names, client_of, read_client

LINES = {
    "pgbench": (
        "progress: 5.0 s, 2233.9 tps, lat 0.447 ms stddev 0.124",
        {"seconds": "5.0", "rate": "2233.9"},
    ),
    "sysbench": (
        "[ 12s ] thds: 4 tps: 203.93 qps: 4078.68 (r/w/o: 2855.08/815.74/407.87) lat (ms,95%): 20.37 err/s: 0.00",
        {"seconds": "12", "rate": "4078.68"},
    ),
    "ycsb": (
        "2020-01-10 16:21:50:213 20 sec: 34012 operations; 1856.1 current ops/sec; est completion in 9 minutes [INSERT",
        {"seconds": "20", "total": "34012"},
    ),
    "memtier": (
        "[RUN #1 12%,   3 secs]  4 threads:      123456 ops,   41152 (avg:   41152) ops/sec, 1.50MB/sec",
        {"seconds": "3", "total": "123456"},
    ),
    "redis-benchmark": ("GET: rps=78544.0 (overall: 77231.7) avg_msec=0.324 (overall: 0.330)", {"rate": "78544.0"}),
}


def test_every_line_says_what_its_groups_mean_and_every_file_has_one_or_counts_calls() -> None:
    for name in client_names():
        client = read_client(name)
        assert client.about and bool(client.calls) != bool(client.line) == (name in LINES), name
    for name, (line, means) in LINES.items():
        found = read_client(name).pattern.search(line)
        assert found is not None and found.groupdict() == means


def test_lines_of_other_things_count_nothing() -> None:
    others = [
        "tps = 2233.9 (without initial connection time)",
        "[ 1s ] reads: 10.00 MiB/s writes: 0.00 MiB/s fsyncs: 0.00/s latency (ms,95%): 0.000",
        "[RUN #2 12%,   3 secs]  4 threads:      12 ops,   41152 (avg:   41152) ops/sec",
        "[OVERALL], Throughput(ops/sec), 1234.5",
    ]
    assert not [line for line in others for name in LINES if read_client(name).pattern.search(line)]


@pytest.mark.parametrize(
    ("program", "words", "adds", "seconds"),
    [
        ("pgbench", "-n -S -T 60 postgres", ["--progress=1"], 60),
        ("pgbench", "-S -P1 --time=30", [], 30),
        ("pgbench", "-S --progress 5 -t 100", [], None),
        ("sysbench", "cpu run", ["--report-interval=1"], 10),
        ("sysbench", "oltp_read_only --time 33 --report-interval=2 run", [], 33),
        ("ycsb", "run rocksdb -P workloads/workloada", ["-s", "-p", "status.interval=1"], None),
        ("site.ycsb.Client", "-cp x site.ycsb.Client -s -t", [], None),
        ("memtier_benchmark", "-s host --test-time=20", [], 20),
    ],
)
def test_what_a_command_says_decides_what_is_added(
    program: str, words: str, adds: list[str], seconds: float | None
) -> None:
    client = client_of(program, words.split())
    assert client is not None
    assert (client.missing(words.split()), client.seconds(words.split())) == (adds, seconds)


@pytest.mark.parametrize(
    ("program", "words"),
    [("pgbench", "-i -s 10"), ("sysbench", "oltp_read_only prepare"), ("ldb", "get 0x12"), ("pgbench2", "-S"),
     ("redis-benchmark", "-q")],
)  # fmt: skip
def test_what_sends_no_queries_or_says_nothing_of_them_is_no_client(program: str, words: str) -> None:
    assert client_of(program, words.split()) is None


def test_how_many_queries_a_client_has_at_once_is_read_of_its_words() -> None:
    pgbench, memtier = read_client("pgbench"), read_client("memtier")
    given = [["-c", "8"], ["-c8"], ["--client=3", "-S"], ["-S"], ["-c", "x"]]
    assert [pgbench.queries_at_once(words) for words in given] == [8, 8, 3, 1, 0]
    assert memtier.queries_at_once(["-c", "8"]) == 0, "its threads times its connections: not known here"


def test_what_prints_nothing_is_counted_by_calls() -> None:
    ldb = client_of("ldb", ["--db=/mnt/db", "scan"])
    assert ldb is not None and ldb.function(["scan"]) == "rocksdb::DBIter::Next"
    assert ldb.function(["load"]) == "rocksdb::DBImpl::WriteImpl" and ldb.missing(["scan"]) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "missing required field `about`"),
        ("about = 1\nprogram = 'x'", "Expected `str`, got `int`"),
        ("about = 'x'\nprogram = 'x'\nlines = 'x'", "unknown field `lines`"),
        ("about = 'x'\nprogram = 'x'\nstream = 'both'", "Invalid enum value 'both'"),
        ("about = 'x'\nprogram = '('\nline = '(?P<rate>.)'", "program = '(' is no pattern"),
        ("about = 'x'\nprogram = 'x'\nline = '(?P<rate>'", "line = '(?P<rate>' is no pattern"),
        ("about = 'x'\nprogram = 'x'\nline = '(?P<seconds>.)'", "needs one of the groups 'rate'"),
        ("about = 'x'\nprogram = 'x'\nline = '(?P<rate>.)(?P<total>.)'", "needs one of the groups 'rate'"),
        ("about = 'x'\nprogram = 'x'\nline = '(?P<rate>.)(?P<qps>.)'", "line has the group 'qps'"),
        ("about = 'x'\nprogram = 'x'", "either line or [[calls]]"),
        ("about = ", "Invalid value"),
    ],
)
def test_a_file_that_describes_no_client_is_refused_with_its_mistake(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as refused:
        read_client(str(path))
    assert str(path) in refused.value.what and says in refused.value.what and refused.value.mend
    with pytest.raises(UsageError, match="there is no such client"):
        read_client("nosuch")


def test_the_example_of_the_documentation_is_a_client(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "running.md").read_text(encoding="utf-8").partition("### Describe a client")[2]
    path = tmp_path / "example.toml"
    path.write_text(page.partition("```toml\n")[2].partition("```")[0], encoding="utf-8")
    client = read_client(str(path))
    assert client.is_named("my_bench") and client.missing([]) == ["--progress=1"] and client.seconds(["-t", "9"]) == 9
    found = client.pattern.search("at 2.0 s: 17.5 ops/s")
    assert found is not None and found["rate"] == "17.5"
    said = {key for key in CountedClient.__struct_fields__ if f"`{key}`" in page or f"\n{key} = " in page}
    assert set(CountedClient.__struct_fields__) - said == {"calls"} and "`[[calls]]`" in page
