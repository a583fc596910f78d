"""Our client at a rate: operations that are due at moments, on an engine whose service time is known."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.figures import Report
from tests.until import until
from tests.workloads.test_our_client import RATE, WRITE_RATE, Ended, argv_of, client
from workloads.our_client import result_of

SERVICE_US = 100


def at_rate(rate: float, *flags: str, arrivals: str = "poisson") -> list[str]:
    return [f"{RATE}={rate}", f"--arrivals={arrivals}", f"--service_time=fixed:{SERVICE_US}us", *flags]


def ran(benchmark: str, *flags: str) -> Ended:
    done = client("nothing", Path("none"), benchmark, *flags)
    assert done.code == 0, done.errors
    return done


@pytest.mark.long
@pytest.mark.parametrize("arrivals", ["fixed", "poisson"])
def test_a_rate_above_what_can_be_served_is_overloaded_and_has_no_percentiles(arrivals: str) -> None:
    # 12,000 a second of 100 us each.
    done = ran("readrandom", *at_rate(1.2e6 / SERVICE_US, "--duration=1", arrivals=arrivals))
    (line,) = done.closing()
    role = line["roles"]["readers"]
    assert (role["arrivals"], role["overloaded"], role["usable"]) == (arrivals, True, False)
    waiting = role["operations_due"] - role["operations"]
    assert role["reason"].startswith(f"overloaded: {waiting} of {role['operations_due']} operations")
    # Nobody can serve more; as many became due as the rate says, within five standard deviations.
    assert role["operations"] <= line["seconds"] * 1e6 / SERVICE_US
    chance = 0 if arrivals == "fixed" else 5 * 12_000**0.5
    assert 12_000 - chance <= role["operations_due"] <= 12_000 * line["seconds"] + 1 + chance * line["seconds"]
    assert "latency_from_schedule_us" not in role
    # There are latencies from the call; they do not replace those from the schedule.
    assert role["latency_from_call_us"]["get"]["p99"] >= SERVICE_US
    result = result_of(done.out, "readrandom")
    assert result is not None and (result.p50, result.p99, result.pmax) == (None, None, None)
    assert result.operations == role["operations"]


@pytest.mark.long
@pytest.mark.parametrize("arrivals", ["fixed", "poisson"])
@pytest.mark.parametrize("benchmark", ["readrandom", "multireadrandom"])
def test_threads_share_one_queue_and_do_all_of_its_operations(benchmark: str, arrivals: str) -> None:
    flags = (f"{RATE}=4000", f"--arrivals={arrivals}", "--threads=4", "--reads=503", "--batch_size=7")
    done = ran(benchmark, *flags)
    (line,) = done.closing()
    role = line["roles"]["readers"]
    assert role["operations"] == role["found"] == 4 * 503 <= role["operations_due"]
    calls = -(-4 * 503 // (7 if benchmark == "multireadrandom" else 1))
    (call,) = role["latency_from_call_us"].values()
    assert call["count"] == calls
    if not role["overloaded"]:
        (schedule,) = role["latency_from_schedule_us"].values()
        assert schedule["count"] == calls >= role["late_us"]["count"]
    # The last was not begun before it was due.
    if arrivals == "fixed":
        assert line["seconds"] >= (calls - 1) * (7 if benchmark == "multireadrandom" else 1) / 4000


@pytest.mark.long
def test_a_rate_that_changes_offers_each_operation_in_its_step(tmp_path: Path) -> None:
    steps = tmp_path / "steps"
    steps.write_text("0.4 0  # nobody asks\n0.1 4\n", encoding="utf-8")
    flags = (f"{RATE}=1000", "--arrivals=fixed", f"--arrival_steps={steps}", "--reads=600")
    (line,) = ran("readrandom", *flags).closing()
    role = line["roles"]["readers"]
    assert role["operations"] == role["latency_from_call_us"]["get"]["count"] == 600
    # 400 in the first half second, at its end; the last is due after 199/4 ms of the second's busy part.
    assert line["seconds"] >= 0.5 + 0.4 + 0.199 / 4
    # Of the second round not all was offered by then.
    assert 600 / line["seconds"] * 0.99 < role["offered_ops_per_second"] <= 800


@pytest.mark.long
def test_a_rate_alone_is_held_without_spinning_and_is_not_judged_by_how_late_the_client_was() -> None:
    role = ran("readrandom", f"{RATE}=2000", "--duration=1").role("readrandom")
    assert role["arrivals"] == "fixed" and role["late_us"]["count"] > 0
    # A call of no engine is far shorter than a thread is late.
    assert role["usable"] is not role["overloaded"]


def test_keys_that_come_in_order_are_each_done_once() -> None:
    flags = (f"{WRITE_RATE}={120 * 5000}", "--arrivals=poisson", "--threads=3", "--num=1009")
    role = ran("fillseq", *flags).role("fillseq", "writers")
    assert role["operations"] == 1009 and role["offered_ops_per_second"] == 5000


def theory_us(rate: float, role: Any) -> float:
    """The mean latency of random arrivals at one thread (M/G/1, Welch 1964), by what the run says of its services.

    A service is the call and what the client does before the next; one that begins late after a pause is longer. With
    equal services and a client that takes no time this is M/D/1: s + rho s / (2 (1 - rho)).
    """
    call, per_us = role["latency_from_call_us"]["get"], rate / 1e6
    between, late = role["between_calls_us"], role["late_us"]
    share = between["count"] / role["operations"]
    added = between["mean"] * share
    service = call["mean"] + added
    variance = call["stdev"] ** 2 + (between["mean"] ** 2 + between["stdev"] ** 2) * share - added**2
    wait = per_us * (service**2 + variance) / (2 * (1 - per_us * service))
    squared = late["mean"] ** 2 + late["stdev"] ** 2
    return float(service + wait + (2 * late["mean"] + per_us * squared) / (2 * (1 + per_us * late["mean"])))


@pytest.mark.by_hand
@pytest.mark.parametrize("load", [0.5, 0.8])
def test_the_mean_latency_is_the_one_that_queueing_theory_has(load: float, figure: Report) -> None:
    """Of so many random arrivals the mean is within 1 % of the theory's; in half the time chance alone can be 3 %."""
    rate = load * 1e6 / SERVICE_US
    role = ran("readrandom", *at_rate(rate, "--duration=40")).role("readrandom")
    equal, expected = SERVICE_US + load * SERVICE_US / (2 * (1 - load)), theory_us(rate, role)
    figure(f"theory by the run's services / M/D/1, load {load}", expected / equal, expected="1 to 1.1 on a quiet host")
    if not role["overloaded"]:
        mean = role["latency_from_schedule_us"]["get"]["mean"]
        figure(f"mean latency / theory, load {load}", mean / expected, expected="0.97 to 1.03")


@pytest.mark.by_hand
def test_a_stop_is_in_the_latency_from_the_schedule_and_not_in_that_from_the_call(
    tmp_path: Path, figure: Report
) -> None:
    report, stop_s = tmp_path / "report.csv", 0.1
    # 4 s with 8,000 operations, of which 200 become due while it is stopped.
    flags = at_rate(2000, "--reads=8000", f"--report_file={report}", arrivals="fixed")
    argv = argv_of("nothing", Path("none"), "readrandom", *flags)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as child:
        # A line is written after the first second.
        until(lambda: report.exists() and report.read_text(encoding="utf-8").count("\n") >= 2, child)
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        # Not a wait for anything: so long nobody is served.
        time.sleep(stop_s)
        child.send_signal(signal.SIGCONT)
        out, _ = child.communicate()
    role = Ended(child.returncode, out, "").role("readrandom")
    stop_us = stop_s * 1e6
    if not role["overloaded"]:
        figure("p99.9 from the schedule / stop", role["latency_from_schedule_us"]["get"]["p99_9"] / stop_us,
               expected="0.9 or more")  # fmt: skip
    figure("p99.9 from the call / stop", role["latency_from_call_us"]["get"]["p99_9"] / stop_us, expected="below 0.1")
