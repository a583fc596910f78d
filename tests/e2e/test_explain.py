"""Every workload in every configuration: `profile` up to the moment at which its client is started, and `explain`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ground.system.process import Child, Children
from ioflame.cli import main
from tests.e2e.explained import comparable, explained
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
@pytest.mark.parametrize(("engine", "client"), _CLIENTS)
def test_what_is_explained_is_what_a_run_would_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: str, client: str
) -> None:
    """Every workload, and every configuration, each with the next one of the other."""
    monkeypatch.chdir(tmp_path)
    # How long the client is asked to run depends on how busy the host is at that moment.
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    about = engine_named(engine)
    cache = "hyper_clock_cache" if client == "db_bench" else about.about.cache_types[-1]
    given = [f"--engine={engine}", f"--client={client}", "--num-keys=20k", "--scale=smoke", "--threads=2", "--cpus=0"]
    workloads, configurations = list(about.workloads()), list(about.configurations())
    for number in range(max(len(workloads), len(configurations))):
        workload, configuration = workloads[number % len(workloads)], configurations[number % len(configurations)]
        words = [*given, f"--cache-type={cache}", f"--config={configuration}"]
        ran = about_to_start(monkeypatch, workload, words)
        for manifest in Path("db").glob(f"*/{MANIFEST}"):
            # Nothing was written: what was settled for one workload is so for the next.
            manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "settled": True}))
        (printed,) = explained(f"--workload={workload}", *words)
        assert comparable(printed) == comparable(ran), (workload, configuration)
