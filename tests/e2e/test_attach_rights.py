"""What an ordinary user may see of a process, and what is said of the rest."""

from __future__ import annotations

import contextlib
import site
from pathlib import Path

import pytest

from ground.results.checks import Verdict
from ground.results.files import Files
from ground.results.profile import read_profile
from ground.results.run import open_run
from tests.conftest import Ioflame
from tests.e2e.commands import service
from tests.e2e.test_services import as_user, home
from tests.places import ROOT
from tests.programs import compiled

# Half in the kernel.
_WORKS = "import os\nwhile True: sum(range(3000)); [os.stat('/') for _ in range(50)]"
# One that every user may run.
_PYTHON = "/usr/bin/python3"


@pytest.mark.long
@pytest.mark.needs("perf", "paranoid_2", "usr_python")
def test_an_ordinary_user_sees_the_user_mode_of_their_own_process(tmp_path_factory: pytest.TempPathFactory) -> None:
    as_nobody = as_user("nobody")
    paths = f"PYTHONPATH={ROOT}:{site.getsitepackages()[0]}"
    with contextlib.ExitStack() as around:
        place = around.enter_context(home(tmp_path_factory, "nobody"))
        # A program that may be run and not be read.
        unreadable = compiled(Path(__file__).with_name("allocates.c"), place / "allocates", "-O1")
        unreadable.chmod(0o711)
        programs = ([_PYTHON, "-c", _WORKS], [str(unreadable)])
        pids = [f"--pid={around.enter_context(service([*as_nobody, *program])).pid}" for program in programs]
        ioflame = Ioflame(_PYTHON)
        code, said, err = ioflame.run(
            "attach", *pids, "--seconds=7", "--freq=199", "--out", place / "runs",
            prefix=(*as_nobody, "env", paths, "PYTHONDONTWRITEBYTECODE=1"),
        )  # fmt: skip
        run = open_run((place / "runs" / "latest").resolve())
        assert code in (0, 1) and ioflame.left_behind() == [], said + err
        assert run.record.profile is not None and run.record.profile.event.endswith(":u")
        profile = read_profile(run.path(Files.PROFILE))
        assert profile.statistics.samples > 0
        assert not [frame for frame in profile.names if frame.endswith("_[k]")]
        # What it may not is said, and is no failure: nobody asked for it by name.
        checks = {check.name: check for check in run.record.checks}
        assert "user mode only" in checks["mode"].value and checks["mode"].verdict is Verdict.WARN
        # A Python without any engine in it.
        assert checks["rules"].value == "no stack has a frame that they know"
        assert [one.kind for one in run.record.unobserved] == ["iolat", "offcpu"]
        assert "names" not in checks
        assert run.path(Files.REPORT).exists()
