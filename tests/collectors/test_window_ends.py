"""An observer that is ended within its window leaves a part, which is never taken for the whole window."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from collectors.pmp import Sampling, pmp_checks
from collectors.pmp_plan import PmpPlan
from ground.results.checks import Verdict
from ground.results.files import Files
from ground.results.pmp import read_pmp
from ground.results.record import Window
from ground.results.run import Run
from ground.system.observer import Observer, attached
from ground.system.process import Children
from ground.text.progress import Reporter
from ioflame.instruments.runqlat import run_queue_observer
from ioflame.stages.observed import analyse_observed
from tests.records import counters, run_record

pytestmark = pytest.mark.long


def watched(children: Children, observer: Observer, *, ended: bool) -> Window:
    """A window that lasts a second longer than the observer, when that is ended with a signal."""
    with attached(observer, Reporter(quiet=True)):
        observer.open()
        begun = time.monotonic_ns()
        (child,) = children
        if ended:
            os.kill(child.pid, signal.SIGTERM)
            assert child.wait(120) == 0
        over = time.monotonic_ns() + ended * 1_000_000_000
        observer.close()
    return Window(observer.kind, begun, over, counters(queries=1, cpu_ns=10**9))


@pytest.mark.needs("co-re")
@pytest.mark.parametrize("ended", [False, True])
def test_a_tracer_that_is_ended_within_its_window(burner: subprocess.Popen[str], tmp_path: Path, ended: bool) -> None:
    run = Run(tmp_path, run_record())
    with Children() as children:
        observer = run_queue_observer(children, burner.pid, run.path(Files.RUN_QUEUE))
        run.record.windows = [watched(children, observer, ended=ended)]
    failed = [check.name for check in analyse_observed(run) if check.verdict is Verdict.FAILED]
    assert ("runqlat window" in failed) == ended


@pytest.mark.parametrize("ended", [False, True])
def test_a_sampler_that_is_ended_within_its_window(burner: subprocess.Popen[str], tmp_path: Path, ended: bool) -> None:
    with Children() as children:
        watched(children, Sampling(children, PmpPlan(hz=1000), burner.pid, tmp_path), ended=ended)
    checks = {check.name: check.verdict for check in pmp_checks(read_pmp(tmp_path))}
    assert (checks.get("pmp window") is Verdict.FAILED) == ended
