"""A JVM that reads from RocksDB, in mount and pid namespaces of its own; the library was deleted once it was loaded."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ground.results.categories import read_categories, read_operations
from ground.results.checks import Verdict
from ground.results.files import Files
from ground.results.profile import read_profile
from ground.system.descendants import descendants
from tests.conftest import ROCKSDBJNI
from tests.e2e.commands import attached, service

_SOURCE = Path(__file__).parent / "namespaced" / "Reads.java"
# It unpacks its library into a /tmp that nobody else sees.
_STARTED = (
    'mount -t tmpfs tmpfs /tmp && exec java -XX:+PreserveFramePointer -XX:TieredStopAtLevel=1 -cp "$0:$1" Reads "$1/db"'
)


@pytest.mark.by_hand
@pytest.mark.needs("perf", "unshare", "rocksdbjni")
def test_the_engine_within_a_jvm_is_told_by_category_and_its_callers_are_named_or_said_to_be_lost(
    tmp_path: Path,
) -> None:
    words = ("--seconds=6", "--freq=499", "--collect=perf")
    compiler = ["javac", "-J-XX:-UsePerfData", "-cp", str(ROCKSDBJNI), "-d", str(tmp_path), str(_SOURCE)]
    subprocess.run(compiler, check=True)
    argv = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", _STARTED]
    with service([*argv, str(ROCKSDBJNI), str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"begun\n"
        jvm = descendants([process.pid])[-1]
        maps = Path(f"/proc/{jvm}/maps").read_text(encoding="utf-8").splitlines()
        mapped = [line for line in maps if "rocksdbjni" in line and ".jar" not in line]
        assert mapped and all(line.endswith("(deleted)") for line in mapped)
        done = attached(tmp_path / "runs", [process.pid], *words)
        # The command that is printed, as a user runs it: in the namespaces of the JVM, where it is process 1.
        inside = ["nsenter", "-t", str(jvm), "-m", "-p", "jcmd", "-J-XX:-UsePerfData", "1", "Compiler.perfmap"]
        subprocess.run(inside, check=True, capture_output=True)
        named = attached(tmp_path / "runs", [process.pid], *words)
    rows = {row.name: row.share for row in read_categories(done.directory).rows}
    assert done.record.engine == "rocksdb"
    assert min(rows[name] for name in ("IBI:Sk", "DBI:Sk", "LRU")) > 0 and rows["other"] < 60, rows
    kinds = {one.name: one.share for one in read_operations(done.directory)}
    assert kinds["get"] > 30, kinds
    frames, anew = (set(read_profile(one.run.path(Files.PROFILE)).names) for one in (done, named))
    assert any(frame.startswith("Java_org_rocksdb_RocksDB_get") for frame in frames & anew)
    # Who calls it is Java, which has no names at first; how it gets some is said, and nothing is run for it.
    assert not any("Reads.main" in frame for frame in frames)
    lost = done.checks["names"]
    assert lost.verdict is Verdict.NOTE and "has written no map of its code" in lost.value
    assert f"jcmd {jvm} Compiler.perfmap" in lost.mend
    assert any("Reads.main" in frame for frame in anew), sorted(anew)
    assert "names" not in named.checks
