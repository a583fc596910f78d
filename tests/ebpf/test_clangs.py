"""The programs do not depend on the clang of the host: each that is installed builds them, and all load."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.ebpf.writers import writing_client
from tests.figures import Report
from tests.places import ROOT

# By hand: a build of the loader for each.
pytestmark = [pytest.mark.by_hand, pytest.mark.needs("co-re")]

_CLANGS = sorted({path.name for path in Path("/usr/bin").glob("clang-[0-9]*") if path.name[6:].isdigit()})


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What cargo has built, copied, so that only the programs are built anew."""
    target = tmp_path_factory.mktemp("clangs")
    shutil.copytree(ROOT / "target" / "release", target / "release", symlinks=True)
    return target


@pytest.mark.parametrize("clang", _CLANGS)  # apt install clang-14 clang-16 clang-19 clang-22
def test_a_clang_builds_programs_that_load(clang: str, target: Path, tmp_path: Path, figure: Report) -> None:
    (tmp_path / "clang").symlink_to(Path("/usr/bin") / clang)
    (ROOT / "ebpf" / "build.rs").touch()
    build = ["cargo", "build", "--release", "--locked", "--package=ioflame-ebpf", "--target-dir", str(target)]
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(build, cwd=ROOT, env=environment, check=True)
    device = tmp_path.stat().st_dev
    disk = f"--device={os.major(device)}:{os.minor(device)}"
    records = [f"--records={tmp_path / 'r.bin'}", f"--recording={tmp_path / 'r.data'}"]
    programs = [
        ["ladder", "--start=query", "--query-symbol=rocksdb::DBImpl::WriteImpl"], ["ladder", "--start=syscall"],
        ["records", "--kind=write", "--force", *records], ["writes", "--stages=full", "--force", "--exact-wake-ups"],
        ["offcpu"], ["offcpu", "--waker"], ["runqlat"], ["iolat", disk],
        ["requests", disk, f"--rows={tmp_path / 'rows'}"],
    ]  # fmt: skip
    with writing_client("rocksdb", tmp_path / "written", 2) as writer:
        for program in programs:
            argv = [str(target / "release" / "ioflame-ebpf"), *program, f"--pid={writer}", "--seconds=0.2"]
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{program}: {done.stderr[-2000:]}"
    figure(f"programs loaded, {clang}", len(programs))
