"""What leaves a store for others: Pyroscope's /ingest, and the file that a scraper fetches."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from folding.foreign import ForeignFrame, ForeignProfile, ForeignSample, encode_pprof, read_pprof
from ground.errors import MeasurementError, UsageError
from ground.results.store.database import Store
from ioflame import cli
from ioflame.store.add import add_to_store
from ioflame.store.export import export_run
from ioflame.store.pyroscope import push_run
from tests.ioflame.asked import refused
from tests.ioflame.store.stored import made_run, weights


@dataclass
class Ingest:
    """A request as Pyroscope's documentation has it: the name apart from its labels, the other words, the profile."""

    name: str
    labels: dict[str, str]
    words: dict[str, str]
    profile: ForeignProfile


def _read(path: str, body: bytes) -> Ingest:
    parts = urlsplit(path)
    assert parts.path == "/ingest"
    words = {key: value for key, (value,) in parse_qs(parts.query, strict_parsing=True).items()}
    name, brace, rest = words.pop("name").partition("{")
    assert brace and rest.endswith("}") and name.replace("_", "").replace(".", "").replace("-", "").isalnum()
    labels = dict(one.split("=") for one in rest[:-1].split(","))
    return Ingest(name, labels, words, read_pprof(body))


@contextlib.contextmanager
def pyroscope(status: int = 200) -> Iterator[tuple[str, list[Ingest]]]:
    """The address of a server of its API, and what it was sent."""
    seen: list[Ingest] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(_read(self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"" if status == 200 else b"no more profiles of this tenant")

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", seen
        finally:
            server.shutdown()
            thread.join()


def test_a_run_goes_to_pyroscope_with_its_labels_time_and_rate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path / "s", create=True)
    run = made_run(tmp_path / "runs", 1)
    (name,) = add_to_store(store, run.directory).new
    with pyroscope() as (address, seen):
        assert cli.main(["store", "export", str(store.directory), "latest", "--pyroscope", address]) == 0
    (sent,) = seen
    assert f"sent:         {sent.name}{{run={name},host=" in capsys.readouterr().out
    assert sent.labels["version"] == "7.8.3" and sent.labels["event"] == "cpu-clock"
    assert (sent.labels["run"], sent.labels["workload"]) == (name, "readrandom")
    windows = run.record.windows
    lasted = (windows[-1].end_ns - windows[0].start_ns) // 10**9
    begun = int(datetime.strptime(run.record.created, "%Y-%m-%dT%H:%M:%S%z").timestamp())
    assert (sent.words["from"], sent.words["until"]) == (str(begun), str(begun + lasted))
    assert sent.words["format"] == "pprof"
    weight, samples = weights(store)[name]
    assert int(sent.words["sampleRate"]) == round(samples / (weight / 1e9))
    totals = tuple(map(sum, zip(*(one.values for one in sent.profile.samples), strict=True)))
    assert sent.profile.types == [("samples", "count"), ("cpu-clock", "ns")] and totals == (samples, weight)
    # What is in the name of the series is not in every sample as well.
    assert {key for one in sent.profile.samples for key, *_ in one.labels} <= {"comm"}


def test_an_imported_profile_is_sent_as_it_came_and_a_refusal_is_told(tmp_path: Path) -> None:
    types = [("samples", "count"), ("cpu", "nanoseconds")]
    samples = [ForeignSample((ForeignFrame("main"), ForeignFrame("work")), (3, 30_000_000), (("comm", "a"),))]
    profile = ForeignProfile(types, 1_700_000_000_000_000_000, samples, duration_ns=10 * 10**9)
    (tmp_path / "in.pb.gz").write_bytes(encode_pprof(profile))
    store = Store(tmp_path / "s", create=True)
    (name,) = add_to_store(store, tmp_path / "in.pb.gz", {"workload": "a service, {x}", "version": "1=2"}).new
    with pyroscope() as (address, seen):
        push_run(store, name, address)
    assert [one.profile for one in seen] == [profile]
    words = {"from": "1700000000", "until": "1700000010", "format": "pprof", "spyName": "ioflame", "sampleRate": "100"}
    assert seen[0].words == words and seen[0].name == "a_service_x_" and seen[0].labels["version"] == "1_2"
    with pyroscope(429) as (address, _), pytest.raises(MeasurementError, match=r"429.*no more profiles"):
        push_run(store, name, address)
    # Nobody listens there any more.
    with pytest.raises(MeasurementError, match="does not take the profile"):
        push_run(store, name, address)
    with pytest.raises(UsageError, match="no address"):
        push_run(store, name, "localhost:4040")


@pytest.mark.long
def test_hosts_of_several_zones_are_on_one_clock(tmp_path: Path) -> None:
    """The same moment in UTC and in Tokyo, and the newest run of all, whose clock in Honolulu shows the day before."""
    store, names = Store(tmp_path / "s", create=True), []
    for pid, created in enumerate(("2026-11-23T20:00:00+0000", "2026-11-24T05:00:00+0900", "2026-11-23T10:00:01-1000")):
        names += add_to_store(store, made_run(tmp_path / "runs", 1 + pid, created=created).directory).new
    told = "SELECT created::VARCHAR FROM runs ORDER BY created, run"
    assert store.query(told).rows == [("2026-11-23 20:00:00",)] * 2 + [("2026-11-23 20:00:01",)]
    assert [path.name for path in store.directory.glob("v1/samples/*")] == ["day=2026-11-23"]
    assert store.query("SELECT run FROM latest").rows == [(names[2],)]
    begun = int(datetime(2026, 11, 23, 20, tzinfo=timezone.utc).timestamp()) * 10**9
    for name, seconds in ((names[0], 0), (names[1], 0), ("latest", 1)):
        export_run(store, name, tmp_path / f"{name}.pb.gz")
        assert read_pprof((tmp_path / f"{name}.pb.gz").read_bytes()).time_ns == begun + seconds * 10**9
    with pyroscope() as (address, seen):
        push_run(store, names[1], address)
    assert int(seen[0].words["from"]) == begun // 10**9


@pytest.mark.long
def test_the_file_that_a_scraper_fetches_is_the_newest_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, served = Store(tmp_path / "s", create=True), tmp_path / "latest.pb.gz"
    export = ["store", "export", str(store.directory), "latest", "-o", str(served)]
    for pid in (1, 2):
        run = made_run(tmp_path / "runs", pid, created=f"2026-11-2{pid}T19:30:27+0000")
        (name,) = add_to_store(store, run.directory).new
        assert cli.main([*export, *(["--replace"] if pid == 2 else [])]) == 0
        profile = read_pprof(served.read_bytes())
        # Parca stores a profile under the time that it says of itself.
        assert profile.time_ns > 1_700_000_000 * 10**9 and profile.duration_ns > 0
        told = {tuple(label) for one in profile.samples for label in one.labels}
        assert {label for label in told if label[0] == "workload"} == {("workload", "readrandom")}
        assert {label for label in told if label[0] == "run"} == {("run", name)}
    assert "is there already" in refused(capsys, *export)
