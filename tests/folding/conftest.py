"""The program whose stacks the tests of stackfold record."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.folding.recordings import BUILDS, SOURCE


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory = tmp_path_factory.mktemp("busy")

    @functools.cache
    def make(name: str) -> Path:
        program = directory / name
        subprocess.run(["g++", "-std=c++17", *BUILDS[name], "-o", program, SOURCE, "-ldl"], check=True, cwd=directory)
        return program

    return make
