"""The agent: when a host wakes and with what chance it profiles, and many of them beside each other in one store."""

from __future__ import annotations

import itertools
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from folding.foreign import ForeignFrame, ForeignProfile, ForeignSample, encode_pprof
from ground.errors import EXIT_INTERRUPTED
from ground.results.run import open_run
from ground.results.store.database import RunTables, Store
from ground.results.store.ids import FrameTable
from ioflame import cli
from ioflame.measure.agent import ServiceConfig, turn_of
from tests.ioflame.asked import refused
from tests.until import until

HOUR = 3600.0


def test_hosts_wake_all_over_the_hour_and_each_by_itself() -> None:
    service = ServiceConfig("db", pprof="http://127.0.0.1/", seconds=60)
    turns = [turn_of(service, f"h{number}", 7, HOUR) for number in range(2000)]
    assert all(0 <= turn.after <= HOUR - 60 for turn in turns)
    # By tenths of the hour: 200 each, with a deviation of 13.
    tenths = Counter(int(turn.after * 10 / (HOUR - 60)) for turn in turns)
    assert len(tenths) == 10 and all(140 < count < 260 for count in tenths.values())
    assert turn_of(service, "h1", 7, HOUR) == turns[1]
    assert turn_of(service, "h1", 8, HOUR).after != turns[1].after


def test_as_many_hosts_profile_as_give_the_samples_that_were_asked_for() -> None:
    # 20 s of 49 Hz on four cores are 3,920 samples: 40,000 of them take 10 of 2,000 hosts.
    service = ServiceConfig("db", pprof="http://127.0.0.1/", seconds=20, samples=40_000, hosts=2000, cores=4)
    turns = [turn_of(service, f"h{host}", hour, HOUR) for host in range(2000) for hour in range(24)]
    assert turns[0].chance == pytest.approx(40_000 / (2000 * 3920))
    taken = sum(turn.taken for turn in turns)
    assert taken * 3920 == pytest.approx(24 * 40_000, rel=0.3)
    # perf records in four of the six parts of an attached run with one observer.
    attached = turn_of(ServiceConfig("db", cgroup="db", samples=1, cores=1), "h", 0, HOUR)
    assert attached.chance == pytest.approx(1 / (49 * 20 * 4 / 6))
    assert turn_of(ServiceConfig("db", pprof="x"), "h", 0, HOUR).chance == 1


def test_the_weighed_sum_of_uneven_hosts_holds_the_true_one(tmp_path: Path) -> None:
    """Ten times as much CPU on some as on others, which have a tenth of the chance; a day of hours."""
    dice, truth = random.Random(11), 0.0
    tables, frames = RunTables("fleet", "2026-11-20"), FrameTable()
    high, low = frames.stack([frames.frame("main")])
    for number in range(1000):
        cores = 1 + 9 * (number % 10 == 0)
        service = ServiceConfig("db", pprof="x", seconds=20, samples=200_000, hosts=1000, cores=cores)
        for hour in range(24):
            used = cores * dice.uniform(0.3, 0.7)
            truth += used
            turn = turn_of(service, f"h{number}", hour, HOUR)
            if turn.taken:
                name = f"fleet.{number:04}{hour:02}"
                created, host = f"2026-11-20T{hour:02}:00:00", f"h{number}"
                row = {"run": name, "created": created, "test": "db", "label": "1", "host": host}
                tables.rows.setdefault("runs", []).append({**row, "probability": turn.chance * 20 / HOUR})
                sample = {"run": name, "event": "cpu-clock", "unit": "ns", "stack_hi": high, "stack_lo": low}
                tables.rows.setdefault("samples", []).append({**sample, "weight": round(used * 20e9), "samples": 1})
    tables.rows["frames"], tables.rows["stacks"] = list(frames.frames.values()), list(frames.stacks.values())
    store = Store(tmp_path / "s", create=True)
    store.add(tables)
    (found,) = store.query("FROM cpu_hours").as_dicts()
    assert abs(found["hours"] - truth) < 1.96 * found["sd"] and found["sd"] < 0.1 * truth
    # Without the probabilities the large hosts would count a tenth of what they use.
    (plain,) = store.query("SELECT sum(weight) / count(*) / 20e9 * 24000 FROM samples").rows[0]
    assert abs(plain - truth) > 5 * found["sd"]
    assert math.isclose(found["profiles"], len(tables.rows["runs"])) and found["hosts"] <= 1000


def agent(place: Path, store: Path, host: str, *services: str, every: str = "1s") -> Path:
    config = place / f"{host}.toml"
    head = f'store = "{store}"\nout = "{place}/runs"\nevery = "{every}"\nhost = "{host}"\n'
    config.write_text(head + "".join(f"[[service]]\n{one}\n" for one in services))
    return config


def start(config: Path, *more: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "ioflame.cli", "agent", "--config", str(config), *more]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def profile(number: int) -> bytes:
    frames = [ForeignFrame(f"f{i}") for i in range(6)]
    dice = random.Random(number)
    samples = [
        ForeignSample((frames[0], frames[one]), (count := dice.randrange(1, 90), count * 10**7)) for one in (1, 2, 3)
    ]
    types = [("samples", "count"), ("cpu", "nanoseconds")]
    return encode_pprof(ForeignProfile(types, 1_700_000_000 * 10**9, samples, duration_ns=10**8))


@pytest.mark.long
def test_many_agents_write_one_store_while_others_merge_it(tmp_path: Path) -> None:
    """Two services each: what is stored is what was handed out, to the unit."""
    store, agents = tmp_path / "s", []
    for number in range(6):
        (tmp_path / f"{number}.pb.gz").write_bytes(profile(number // 2))
        url = (tmp_path / f"{number}.pb.gz").as_uri()
        services = [f'name = "{name}"\npprof = "{url}"\nseconds = 0.1\nversion = "1"' for name in ("a", "b")]
        agents.append(start(agent(tmp_path, store, f"h{number}", *services), "--once"))
    until(
        lambda: len(list(store.glob("v1/runs/*/*.parquet"))) >= 5,
        as_long_as=lambda: any(one.poll() is None for one in agents),
    )
    merge = [sys.executable, "-m", "ioflame.cli", "store", "compact", str(store)]
    merging = [subprocess.Popen(merge, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for process in [*agents, *merging]:
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
    whole = Store(store)
    assert whole.check() == [] and whole.query("SELECT count(*), count(DISTINCT host) FROM runs").rows == [(12, 6)]
    expected: Counter[str] = Counter()
    for number in range(6):
        dice = random.Random(number // 2)
        for one in (1, 2, 3):
            expected[f"f{one}"] += 2 * dice.randrange(1, 90)
    sums = """SELECT name, sum(weight)::BIGINT FROM samples JOIN stacks USING (stack_hi, stack_lo)
              JOIN frames ON frame = frames[-1] WHERE event = 'samples' GROUP BY name"""
    assert dict(whole.query(sums).rows) == dict(expected)
    # A tenth of a second in each second, in all of them.
    assert whole.query("SELECT DISTINCT probability, label, test FROM runs ORDER BY test").rows == [
        (pytest.approx(0.1), "1", "a"), (pytest.approx(0.1), "1", "b"),
    ]  # fmt: skip


@pytest.fixture
def busy_group(group: Path, burner: subprocess.Popen[str]) -> Iterator[Path]:
    """A control group that a busy process is in."""
    try:
        (group / "cgroup.procs").write_text(str(burner.pid), encoding="ascii")
        yield group
    finally:
        burner.kill()
        burner.wait()
        until(lambda: not (group / "cgroup.procs").read_text())


@pytest.mark.long
@pytest.mark.needs("perf")
def test_a_service_is_watched_by_perf_and_stored_with_its_probability(busy_group: Path, tmp_path: Path) -> None:
    service = f'name = "db"\nversion = "10.6"\ncgroup = "{busy_group}"\nseconds = 6\nattach = {{ redact = true }}'
    done = start(agent(tmp_path, tmp_path / "s", "h", service, every="7s"), "--once")
    _, err = done.communicate(timeout=300)
    assert done.returncode == 0, err + (tmp_path / "runs" / "db" / "attach.log").read_text()
    record = open_run((tmp_path / "runs" / "db" / "latest").resolve()).record
    store = Store(tmp_path / "s")
    (row,) = store.query("SELECT test, label, host, probability FROM runs SEMI JOIN hosts USING (run, host)").rows
    recorded = sum(window.seconds for window in record.windows if window.kind == "perf")
    assert row == ("db", "10.6", "h", pytest.approx(recorded / 7)) and record.profile is not None
    assert record.target is not None and record.target.redacted
    assert store.query("SELECT sum(weight)::BIGINT FROM samples").rows == [(record.profile.weight,)]
    # As much CPU as was recorded, times the seconds that were not.
    (hours,) = store.query("SELECT hours FROM cpu_hours").rows[0]
    assert hours == pytest.approx(record.profile.weight / 3.6e12 * 7 / recorded)


@pytest.mark.long
@pytest.mark.needs("perf")
def test_the_last_minutes_of_a_recorder_are_kept_on_a_signal(busy_group: Path, tmp_path: Path) -> None:
    service = f'name = "db"\ncgroup = "{busy_group}"\nseconds = 5\nrecorder = "6s"\nattach = {{ collect = "null" }}'
    config = agent(tmp_path, tmp_path / "s", "h", service, every="9d")
    argv = [sys.executable, "-m", "ioflame.cli", "agent", "--config", str(config)]
    log = tmp_path / "log"
    with log.open("wb") as errors:
        watching = subprocess.Popen(argv, stderr=errors)
    runs = tmp_path / "runs" / "db" / "recorder"
    until((runs / "latest").exists, watching)
    first = (runs / "latest").resolve()
    # One that is older than the 15 minutes is let go, and never kept.
    old = shutil.copytree(first, runs / "old")
    os.utime(old / "run.json", (time.time() - 1000,) * 2)
    watching.send_signal(signal.SIGUSR1)
    # It is said after it is done.
    until(lambda: "kept for good" in log.read_text() and not old.exists(), watching)
    assert (first / "kept").exists()
    watching.terminate()
    watching.wait(60)
    err = log.read_text()
    assert f"kept for good: {first}" in err and "old" not in err
    assert Store(tmp_path / "s").query("SELECT count(*) FROM runs").rows == [(0,)]


def test_what_came_due_while_the_host_slept_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a clock of the test's: at its sixth wait the host sleeps for more than five periods of 3 s."""
    clock, waits, taken = [3e8], itertools.count(1), []

    def sleep(seconds: float) -> None:
        number = next(waits)
        clock[0] += 16.1 if number == 6 else seconds
        if number > 40:
            raise KeyboardInterrupt

    def fetched(_: str) -> bytes:
        taken.append(clock[0] // 3 - 1e8)
        return profile(1)

    monkeypatch.setattr("ioflame.measure.agent.time", SimpleNamespace(time=lambda: clock[0], sleep=sleep))
    monkeypatch.setattr("ioflame.measure.agent._fetched", fetched)
    service = 'name = "db"\npprof = "x"\nversion = "1"\nseconds = 2.9'
    config = agent(tmp_path, tmp_path / "s", "h", service, every="3s")
    assert cli.main(["agent", "--config", str(config)]) == EXIT_INTERRUPTED
    assert taken == [0, 7, 8, 9, 10]
    assert "the host slept for" in capsys.readouterr().err


def test_what_fails_is_told_and_the_other_services_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "good.pb.gz").write_bytes(profile(1))
    good = f'pprof = "{(tmp_path / "good.pb.gz").as_uri()}"\nseconds = 0.1'
    config = agent(
        tmp_path, tmp_path / "s", "h",
        f'name = "gone"\npprof = "{(tmp_path / "none").as_uri()}"\nseconds = 0.1',
        f'name = "mute"\nversion_command = "true"\n{good}',
        f'name = "good"\nversion_command = "echo 10.6.2"\n{good}',
    )  # fmt: skip
    assert cli.main(["agent", "--once", "--config", str(config)]) == 1
    err = capsys.readouterr().err
    assert "gone: file://" in err and "hands out no profile" in err
    assert "mute: the version's command prints none: true" in err
    assert Store(tmp_path / "s").query("SELECT test, label, host FROM runs").rows == [("good", "10.6.2", "h")]


@pytest.mark.parametrize(
    ("service", "words"),
    [
        ('name = "a"', "the service a has no target"),
        ('name = "a"\ncgroup = "x"\npprof = "y"', "the service a has cgroup and pprof"),
        ('name = "a"\ncgroup = "x"\nseconds = 5.0', "has seconds = 5"),
        ('name = "a"\ncgroup = "x"\nsample = 5', "unknown field `sample` - at `$.service[0]`"),
        ('name = "a"\npprof = "x"\nseconds = 0.1\n[[service]]\nname = "a"\npprof = "y"\nseconds = 0.1', "one name"),
        ('name = "a"\npprof = "x"\nrecorder = "1m"\nseconds = 0.1', "cannot have a recorder"),
        ("name = ", "Invalid value"),
        ('name = "../X"\npprof = "x"\nseconds = 0.1', "called '../X'"),
        ('name = ".."\npprof = "x"\nseconds = 0.1', "called '..'"),
        ('name = ""\npprof = "x"\nseconds = 0.1', "called ''"),
        ('name = "a"\ncgroup = "x"\nseconds = 0.1\nattach = { freq = "abc" }', "attach.freq 'abc'"),
        ('name = "a"\ncgroup = "x"\nseconds = 0.1\nattach = { freq = 0 }', "attach.freq 0"),
        ('name = "a"\ncgroup = "x"\nseconds = 0.1\nattach = { freq = true }', "attach.freq True"),
        (f"name = {'[' * 3000}", "nested too deep"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused_by_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], service: str, words: str
) -> None:
    config = agent(tmp_path, tmp_path / "s", "h", service)
    err = refused(capsys, "agent", "--config", config)
    assert words in err and str(config) in err
    assert not (tmp_path / "s").exists()
