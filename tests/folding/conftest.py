"""The program whose stacks the tests of stackfold record."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from tests.folding.recordings import BUILDS, SOURCE
from tests.programs import compiled


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory = tmp_path_factory.mktemp("busy")

    @functools.cache
    def make(name: str) -> Path:
        return compiled(SOURCE, directory / name, "-std=c++17", *BUILDS[name], "-ldl")

    return make
