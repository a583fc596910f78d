"""Every workload in every configuration: `profile` up to the moment at which its client is started, and `explain`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ground.system.process import Child, Children
from ioflame.cli import main
from tests.conftest import Ioflame
from tests.e2e.conftest import Finished
from tests.e2e.explained import assert_explained, command_lines, comparable
from workloads.database import MANIFEST
from workloads.registry import engine_named

pytestmark = pytest.mark.needs("perf", "db_bench")

_CLIENTS = [("rocksdb", "db_bench"), ("leveldb", "ioflame"), ("lmdb", "ioflame")]


class _StartedError(Exception):
    """The workload is about to be started, with this command line."""


def about_to_start(monkeypatch: pytest.MonkeyPatch, workload: str, words: list[str]) -> list[str]:
    """The command line that `profile` would start the workload with; everything before it is really run."""
    start = Children.start

    def stopped(self: Children, name: str, argv: list[str], **rest: Any) -> Child:
        if name.endswith(f" {workload}"):
            raise _StartedError(argv)
        return start(self, name, argv, **rest)

    with monkeypatch.context() as patched:
        patched.setattr(Children, "start", stopped)
        with pytest.raises(_StartedError) as caught:
            main(["profile", f"--workload={workload}", "--quiet", *words])
    argv: list[str] = caught.value.args[0]
    return argv


@pytest.mark.long
@pytest.mark.parametrize(
    ("engine", "client", "configuration"),
    [(engine, client, name) for engine, client in _CLIENTS for name in engine_named(engine).configurations()],
)
def test_what_is_explained_is_what_a_run_would_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    engine: str, client: str, configuration: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    # How long the client is asked to run depends on how busy the host is at that moment.
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    words = [f"--engine={engine}", f"--client={client}", f"--config={configuration}", "--num-keys=20k"]
    words += ["--scale=smoke", "--threads=2", "--cpus=0", f"--cache-type={engine_named(engine).about.cache_types[-1]}"]
    if client == "db_bench":
        words[-1] = "--cache-type=hyper_clock_cache"
    for workload in engine_named(engine).workloads():
        ran = about_to_start(monkeypatch, workload, words)
        for manifest in Path("db").glob(f"*/{MANIFEST}"):
            # Nothing was written: what was settled for one workload is so for the next.
            manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "settled": True}))
        capsys.readouterr()
        assert main(["explain", f"--workload={workload}", *words]) == 0
        (printed,) = command_lines(capsys.readouterr().out)
        assert comparable(printed) == comparable(ran), workload


@pytest.mark.alone
@pytest.mark.needs("co-re")
def test_a_run_was_started_as_explained(ioflame: Ioflame, finished: Finished) -> None:
    given = finished.record.options
    words = [f"--{name.replace('_', '-')}={given[name]}" for name in ("scale", "num_keys", "db_dir", "duration")]
    assert_explained(ioflame, finished.record, "--workload=readrandom", *words)
