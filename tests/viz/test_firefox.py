"""Our Firefox Profiler file in the Firefox Profiler's own reader: the figures it gives are those of the stacks."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.viz.conftest import NpmPackage
from tests.viz.samples import stacks
from viz.export.firefox import firefox_profile
from viz.flame.stacks import Stack

SHA512 = "f9fqdHh7B6ddQIYrwrEs4FE5D8BMOsXSorYF4NRFfwPaGikVBlhorBxHT7zrb6WMgJgKQYHC9kazkRjbItLx8Q=="


def threaded() -> list[Stack]:
    """The sample stacks with threads and objects, and a recursion on top."""
    made = [Stack(("db_bench", "again<&>", "x", "again<&>"), 500_000_000), *stacks()]
    return [
        replace(
            stack,
            thread=f"{stack.frames[0]}/{40 + index % 2}",
            objects=(
                "",
                *("[kernel.kallsyms]" if f.endswith("_[k]") else "/usr/lib/librocksdb.so.7" for f in stack.frames[1:]),
            ),
        )
        for index, stack in enumerate(made)
    ]


# Its command line gives its own server half a second to start.
@pytest.mark.alone
@pytest.mark.needs("node")
def test_the_firefox_profiler_reads_our_file(npm_package: NpmPackage, tmp_path: Path) -> None:
    package = npm_package("@firefox-devtools/profiler-cli", "0.10.0", SHA512)
    given = threaded()
    (tmp_path / "x.json").write_text(firefox_profile(given, "ours", "ns"))

    def ask(*words: str) -> str:
        argv = ["node", str(package / "dist" / "profiler-cli.js"), *words]
        done = subprocess.run(
            argv,
            cwd=tmp_path,
            env={**os.environ, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        ask("load", "x.json")
        listed = json.loads(ask("thread", "list", "--json"))["threads"]
        handles = {f"{one['name']}/{one['tid']}": one["threadHandle"] for one in listed}
        assert set(handles) == {stack.thread for stack in given}
        for thread, handle in handles.items():
            told = json.loads(ask("thread", "functions", "--thread", handle, "--limit", "0", "--json"))
            assert told["weightType"] == "tracing-ms"
            check([stack for stack in given if stack.thread == thread], told["functions"])
    finally:
        ask("stop", "--all")


def check(mine: list[Stack], functions: list[dict[str, Any]]) -> None:
    self_of: Counter[str] = Counter()
    total_of: Counter[str] = Counter()
    for stack in mine:
        self_of[stack.frames[-1]] += stack.weight
        for name in set(stack.frames):
            total_of[name] += stack.weight
    assert {one["name"] for one in functions} == set(total_of)
    for one in functions:
        assert one["selfSamples"] == pytest.approx(self_of[one["name"]] / 1e6)
        assert one["totalSamples"] == pytest.approx(total_of[one["name"]] / 1e6)
        if one["name"].endswith("_[k]"):
            assert one["library"] == "[kernel.kallsyms]"
        elif one["name"] not in ("db_bench", "rocksdb:low"):
            assert one["library"] == "librocksdb.so.7"
