"""The one profile that `make test` records, with everything that watches, and a place that all workers share."""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ground.results.checks import Check, Verdict
from ground.results.record import RunRecord
from ground.results.run import Run, open_run
from tests.places import ROOT

KEYS = "400000"
ALL = ("perf", "iolat", "ladder", "offcpu", "runqlat", "pmp", "requests", "null")
# Of a window of the recorded run.
SECONDS = 3


@dataclass(frozen=True)
class Measured:
    """What a command that measured printed, and its run. code: 1 where a check failed, as one may on a busy host"""

    code: int
    out: str
    err: str
    run: Run

    @property
    def record(self) -> RunRecord:
        return self.run.record

    @property
    def directory(self) -> Path:
        return self.run.directory

    @property
    def checks(self) -> dict[str, Check]:
        return {check.name: check for check in self.record.checks}


def assert_reported(record: RunRecord) -> None:
    """The folded total is perf report's, to the unit. Of a recording of the whole system perf 6.1 may have none: Linux
    6.18 writes records that it gives up on where two record while BPF programs come and go, as tests beside this do."""
    profile = record.profile
    assert profile is not None and profile.weight > 0
    unread = [None] if profile.scope == "system" else []
    assert profile.report_weight in (profile.weight, *unread)
    (check,) = (check for check in record.checks if check.name == "folded = perf report")
    assert (check.verdict is Verdict.WARN) == (profile.report_weight is None)


def record_run(shared: Path) -> Measured:
    """`make profile` as a user runs it, with every observer: made by whoever asks first, the others wait for it."""
    place = made_once(shared, "recorded", _profile)
    code, out, err = json.loads((place / "printed.json").read_text(encoding="utf-8"))
    return Measured(code, out, err, open_run((place / "runs" / "latest").resolve()))


def _profile(place: Path) -> None:
    """It loads its database and profiles it; what it printed is in `printed.json`."""
    variables = [f"NUM_KEYS={KEYS}", f"DB_DIR={place}/made", f"OUT={place}/runs", "SCALE=smoke", "WORKLOAD=readrandom"]
    variables += [f"DURATION={SECONDS}", f"COLLECT={' '.join(ALL)}"]
    done = subprocess.run(
        ["make", "profile", *variables],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    # make's own exit code is 2 whenever the command's is not 0; its message has that one.
    told = re.search(r"\] Error (\d+)$", done.stderr, re.MULTILINE)
    code = int(told[1]) if told else done.returncode
    assert code in (0, 1), done.stderr + done.stdout
    (place / "printed.json").write_text(json.dumps([code, done.stdout, done.stderr]), encoding="utf-8")


def made_once(shared: Path, name: str, make: Callable[[Path], None]) -> Path:
    """`shared/name`, made by the first process that asks for it; the others wait for it.

    make: fills the directory that it is given. What failed is made again by the next.
    """
    target = shared / name
    with (shared / f"{name}.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = shared / f"{name}.done"
        if not done.exists():
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            make(target)
            done.touch()
    return target


if __name__ == "__main__":
    record_run(Path(sys.argv[1]))
