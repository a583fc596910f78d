"""The wheel, installed where there is neither a checkout nor a compiler."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

from ground.results.run import open_run
from ioflame import __version__
from tests.e2e.commands import service
from tests.places import ROOT
from tests.recorded_run import assert_reported

pytestmark = [pytest.mark.long, pytest.mark.needs("perf", "db_bench", "co-re", "fio")]

COMPILERS = ("cargo", "rustc", "clang", "cc", "gcc", "c++", "g++", "make")


@dataclass(frozen=True)
class Installed:
    """ioflame of the wheel. path: every program of this host but compilers; place: an empty directory"""

    program: Path
    path: str
    place: Path

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": self.path, "HOME": str(self.place), "TMPDIR": os.environ["TMPDIR"]}
        environment |= {name: value for name, value in os.environ.items() if name.startswith("IOFLAME_TEST")}
        argv = [str(self.program), *arguments]
        return subprocess.run(
            argv, cwd=self.place, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )


@pytest.fixture
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    base = tmp_path_factory.mktemp("wheel")
    subprocess.run(["bash", "ioflame/dist.sh", str(base / "dist")], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = (base / "dist").iterdir()
    venv = base / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    pip = [venv / "bin" / "pip"]
    subprocess.run([*pip, "install", "-q", "--no-deps", "--no-index", wheel], check=True)
    # What it depends on is here already, of the versions that it wants: nothing is fetched.
    (packages,) = (venv / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    subprocess.run([*pip, "check"], check=True, capture_output=True)
    tools = base / "tools"
    tools.mkdir()
    for directory in ("/usr/bin", "/usr/sbin"):
        for program in Path(directory).iterdir():
            if not program.name.startswith(COMPILERS) and not (tools / program.name).exists():
                (tools / program.name).symlink_to(program)
    place = base / "place"
    place.mkdir()
    return Installed(venv / "bin" / "ioflame", str(tools), place)


def test_it_works_without_checkout_and_compiler(installed: Installed, tmp_path: Path) -> None:
    commit = subprocess.run(["git", "describe", "--always", "--dirty", "--exclude=*"], cwd=ROOT, capture_output=True,
                            text=True, check=True).stdout.strip()  # fmt: skip
    assert installed.run("--version").stdout == f"ioflame {__version__} ({commit})\n"
    share = installed.program.parent.parent / "share"
    for place in ("bash-completion/completions/ioflame", "zsh/site-functions/_ioflame",
                  "fish/vendor_completions.d/ioflame.fish"):  # fmt: skip
        assert "iolat" in (share / place).read_text(encoding="utf-8")
    pages = {path.stem for path in (share / "man" / "man1").iterdir()}
    assert {"ioflame", "ioflame-profile", "ioflame-ebpf-iolat", "stackfold", "stackfold-fold"} <= pages

    # A probe on the loader by its name, which is one of the symbols that are kept.
    assert "a function of ours was watched" in installed.run("doctor").stdout
    reads = ["fio", "--name=x", f"--filename={tmp_path}/data", "--size=16m", "--rw=randread", "--direct=1"]
    reads += ["--time_based", "--runtime=120", "--thread", "--ioengine=psync"]
    with service(reads, stderr=subprocess.DEVNULL) as reader:
        done = installed.run("ebpf", "iolat", "--pid", str(reader.pid), "--seconds", "3", "--json")
    assert done.returncode in (0, 1), done.stderr
    assert json.loads(done.stdout)["backend"] == "co-re"

    assert list(installed.place.iterdir()) == []
    done = installed.run("profile", "--scale", "smoke", "--num-keys", "200k", "--duration", "2")
    assert done.returncode in (0, 1), done.stderr + done.stdout
    run = open_run((installed.place / "runs" / "latest").resolve())
    assert_reported(run.record)
    assert (run.directory / "report.html").exists()
    assert "Where the CPU of one query goes" in installed.run("show", "runs/latest").stdout
