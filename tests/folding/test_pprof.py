"""The pprof that stackfold writes, read back by the pprof that comes with Go."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from collectors.perf import Plan, record_for
from folding.foreign import ForeignFrame, ForeignProfile, ForeignSample, encode_pprof
from folding.stackfold import fold, stackfold_binary
from ground.results.files import Files
from ground.results.store.database import Store
from ground.system.process import Children
from ioflame.store.add import add_to_store
from ioflame.store.export import export_run
from tests.folding.recordings import CHAINS, record, run, stacks, stats
from tests.places import RECORDINGS

pytestmark = [pytest.mark.long, pytest.mark.needs("go")]

CAPTURE = RECORDINGS / "readrandom_fp.txt"


@pytest.fixture(scope="module")
def pprof(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("go") / "pprof"
    subprocess.run(["env", "GOPROXY=off", "go", "build", "-o", path, "cmd/pprof"], check=True)
    return path


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pprof") / "profile.pb.gz"
    subprocess.run([stackfold_binary(), "-q", "--kernel", str(CAPTURE), "-o", str(path)], check=True)
    return path


def _stacks() -> list[tuple[list[str], int]]:
    folded = stacks(run("-q", "--kernel", CAPTURE).stdout)
    return [(stack.decode().split(";"), weight) for stack, weight in folded.items()]


def _ask(pprof: Path, *arguments: str | Path) -> str:
    argv = [str(pprof), "-symbolize=none", *map(str, arguments)]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def test_self_and_total_weights_are_the_folded_ones(pprof: Path, profile: Path) -> None:
    selves: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    for frames, weight in _stacks():
        selves[frames[-1]] += weight
        totals.update(dict.fromkeys(frames[1:], weight))
    options = ("-top", "-unit=ns", "-nodecount=100000", "-nodefraction=0", "-edgefraction=0")
    rows = re.findall(r"^ *(\d+)(?:ns)? +\S+ +\S+ +(\d+)(?:ns)? +\S+ +(.*)$", _ask(pprof, *options, profile), re.M)
    assert {name: (int(flat), int(cum)) for flat, cum, name in rows} == {
        name: (selves[name], total) for name, total in totals.items()
    }


def test_values_labels_and_mappings_are_there(pprof: Path, profile: Path) -> None:
    raw = _ask(pprof, "-raw", profile)
    assert "samples/count cpu-clock/nanoseconds[dflt]" in raw
    assert "comm:[db_bench] event:[cpu-clock]" in raw
    assert re.search(r"^ +tid:\[5076\]$", raw, re.M)
    for mapping in (r"/usr/lib/x86_64-linux-gnu/librocksdb\.so\.7\.8\.3", r"\[kernel\.kallsyms\]"):
        assert re.search(rf"^\d+: 0x0/0x0/0x0 {mapping} ", raw, re.M), raw[-2000:]
    samples = re.findall(r"^ +(\d+) +(\d+): ", raw, re.M)
    assert sum(int(n) for n, _ in samples) == CAPTURE.read_text().count("cpu-clock:")
    assert sum(int(weight) for _, weight in samples) == sum(weight for _, weight in _stacks())


@pytest.mark.needs("perf")
def test_what_a_store_exports_opens(pprof: Path, tmp_path: Path) -> None:
    """Folded text, whose only value is `samples`, and values of one name."""
    (tmp_path / "x.folded").write_text("main;f 3\nmain;g 4\n")
    two = ForeignProfile([("cpu", "count"), ("cpu", "nanoseconds")], 1, [ForeignSample((ForeignFrame("f"),), (2, 7))])
    (tmp_path / "two.pb.gz").write_bytes(encode_pprof(two))
    store = Store(tmp_path / "store", create=True)
    for number, name in enumerate(("x.folded", "two.pb.gz")):
        (added,) = add_to_store(store, tmp_path / name).new
        export_run(store, added, tmp_path / f"{number}.pb.gz")
        assert "of 7" in _ask(pprof, "-top", tmp_path / f"{number}.pb.gz"), name


def test_the_profile_that_a_run_keeps_opens_with_its_total(
    pprof: Path, burner: subprocess.Popen[str], tmp_path: Path
) -> None:
    with Children() as children:
        record_for(children, Plan("cpu-clock", 499, "process", "fp", ()), burner.pid, tmp_path / "perf.data", 1.0)
    stats = fold(tmp_path / "perf.data", tmp_path, [burner.pid]).statistics
    argv = [str(pprof), "-top", "-unit=ns", str(tmp_path / Files.PPROF)]
    told = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert f"of {stats.weight}ns total" in told
    tags = subprocess.run([*argv[:1], "-tags", argv[-1]], capture_output=True, text=True, check=True).stdout
    assert re.search(rf"\b{burner.pid}\b", tags)


@pytest.mark.needs("perf")
def test_a_recording_gives_build_ids_addresses_and_inlined_lines(pprof: Path, build: Any, tmp_path: Path) -> None:
    data = record(tmp_path / "perf.data", CHAINS, build("debug"), "300")
    subprocess.run([stackfold_binary(), "-q", str(data), "-o", str(tmp_path / "out.pb.gz")], check=True)
    raw = _ask(pprof, "-raw", tmp_path / "out.pb.gz")
    notes = subprocess.run(["readelf", "-n", build("debug")], check=True, capture_output=True, text=True).stdout
    build_id = re.findall(r"Build ID: (\w+)", notes)[0]
    mapping = rf"^\d+: 0x0/0x[1-9a-f]\w*/0x0 {re.escape(str(build('debug')))} {build_id} "
    assert re.search(mapping, raw, re.M), raw[-2000:]
    # The location of an inlined call: two lines at one address.
    assert re.search(r"^ +\d+: 0x[1-9a-f]\w* M=\d+ turn .*\n +\S.*hidden", raw, re.M), raw[-3000:]
    found = stats(data, tmp_path)
    assert sum(int(weight) for _, weight in re.findall(r"^ +(\d+) +(\d+): ", raw, re.M)) == found["weight"]
