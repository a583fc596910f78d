"""The program whose stacks the tests of stackfold record."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.folding.recordings import BUILDS, SOURCE, direct, record
from tests.programs import compiled


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory = tmp_path_factory.mktemp("busy")

    @functools.cache
    def make(name: str) -> Path:
        return compiled(SOURCE, directory / name, "-std=c++17", *BUILDS[name], "-ldl")

    return make


@pytest.fixture
def map_of_jit(build: Any, tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A recording of run-time code, and the map that its process, which has ended, left of it."""
    data = record(tmp_path / "perf.data", ["-e", "cpu-clock", "-g", "-F", "999"], build("fp"), "200", "jit")
    (pid,) = {int(pid) for pid in re.findall(rb"-(\d+)/", b"\n".join(direct(data, "--tid")))}
    path = Path(f"/tmp/perf-{pid}.map")
    yield data, path
    path.unlink(missing_ok=True)
