"""The layered contract of pyproject.toml refuses an import that climbs, in every layer."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ground.text.toml import tomllib
from tests.places import ROOT

CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
LAYERS: list[str] = CONTRACTS["contracts"][0]["layers"]
# A module of each layer, and one of a layer above it (or of a room beside it) that it may not import.
FORBIDDEN = [
    ("ioflame/commands/report.py", "ioflame.cli"),
    ("ioflame/measure/job.py", "ioflame.commands.report"),
    # What shows a run cannot measure one, and what is stored is not drawn.
    ("ioflame/present/report.py", "ioflame.measure.profile"),
    ("ioflame/store/add.py", "ioflame.present.report"),
    ("ioflame/stages/rules.py", "ioflame.present.report"),
    ("ioflame/instruments/null.py", "ioflame.stages.rules"),
    ("ioflame/analysis/findings.py", "ioflame.instruments.perf"),
    # No room imports the roof, neither its top nor its lowest layer, nor another room.
    ("workloads/engine.py", "ioflame.measure.job"),
    ("workloads/engine.py", "ioflame.analysis.findings"),
    ("collectors/perf.py", "ioflame.analysis.findings"),
    ("ebpf/observer.py", "ioflame.analysis.findings"),
    ("folding/stackfold.py", "ioflame.analysis.findings"),
    ("viz/figures.py", "ioflame.analysis.findings"),
    ("viz/weights.py", "collectors.perf"),
    ("folding/stackfold.py", "viz.weights"),
    ("ioflame/analysis/findings.py", "ioflame.measure.job"),
    ("ground/results/record.py", "ioflame.analysis.findings"),
    ("ground/results/record.py", "viz.weights"),
    ("ground/system/process.py", "ground.results.record"),
    ("ground/text/units.py", "ground.system.process"),
    ("ground/errors.py", "ground.text.units"),
    ("ground/settings.py", "ground.errors"),
    # A command imports no other command.
    ("ioflame/commands/report.py", "ioflame.commands.analyse"),
]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the Python of the house, to be spoilt."""
    copy = tmp_path_factory.mktemp("house")
    for name in CONTRACTS["root_packages"]:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.rs", "target", "src"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    return copy


def contracts_kept(house: Path) -> tuple[bool, str]:
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint, "--no-cache"], cwd=house, capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stdout


def test_the_house_keeps_its_contracts(house: Path) -> None:
    kept, said = contracts_kept(house)
    assert kept, said


@pytest.mark.parametrize(("module", "imported"), FORBIDDEN)
def test_an_import_that_climbs_is_refused(house: Path, module: str, imported: str) -> None:
    path = house / module
    text = path.read_text(encoding="utf-8")
    path.write_text(f"{text}\nimport {imported}\n", encoding="utf-8")
    try:
        kept, said = contracts_kept(house)
    finally:
        path.write_text(text, encoding="utf-8")
    importer = module.removesuffix(".py").replace("/", ".")
    assert not kept
    assert f"{importer} -> {imported}" in said


def test_every_layer_has_a_case() -> None:
    tried = {module.removesuffix(".py").replace("/", ".") for module, _ in FORBIDDEN}
    for layer in LAYERS[1:]:
        rooms = [room.strip() for room in layer.split("|")]
        for room in rooms:
            assert any(name == room or name.startswith(f"{room}.") for name in tried), room
