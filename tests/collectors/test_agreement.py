"""perf held against the scheduler, and beside another perf: by hand."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from collectors.perf import plan_recording
from folding.stackfold import fold
from ground.errors import HostError
from ground.system.process import Children
from tests.collectors.conftest import burnt, recording, until_burnt
from tests.figures import Report

pytestmark = [pytest.mark.by_hand, pytest.mark.needs("perf")]


@pytest.mark.parametrize("scope", ["process", "system"])
def test_samples_weigh_what_the_scheduler_counts(
    burner: subprocess.Popen[str], children: Children, tmp_path: Path, scope: str, figure: Report
) -> None:
    data = tmp_path / "perf.data"
    with recording(children, burner.pid, data, scope) as perf:
        begun = burnt(burner.pid)
        perf.open()
        until_burnt(burner.pid, 2.0)
        perf.close()
        used = burnt(burner.pid) - begun
    share = fold(data, tmp_path, [burner.pid]).statistics.weight / 1e9 / used
    figure(f"weight / CPU time, {scope}", share, expected="0.95 to 1.01 on a quiet host")


def test_a_recording_with_build_ids_beside_it_is_named_where_perf_aborts_on_it(tmp_path: Path) -> None:
    # It would end the recordings of other tests, too. The command starts once events are on.
    others = ["perf", "record", "-a", "-q", "-N", "--buildid-mmap", "-o", str(tmp_path / "others.data")]
    command = ["sh", "-c", "echo started; read end"]
    with subprocess.Popen(
        [*others, "--", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as other:
        assert other.stdin is not None and other.stdout is not None
        assert other.stdout.readline() == b"started\n"
        try:
            plan = plan_recording("page-faults", 99, "fp")
        except HostError as error:
            assert "aborts" in str(error) and "build-id.c" in str(error)
            assert "--buildid-mmap" in (error.means or "") and "pgrep" in (error.mend or "")
        else:
            assert plan.event == "page-faults"  # a kernel or a perf without the defect
        other.stdin.close()
        assert other.wait() == 1  # `read` saw the end: perf recorded until then
    assert plan_recording("page-faults", 99, "fp").event == "page-faults"
