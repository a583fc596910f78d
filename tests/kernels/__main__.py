"""Every eBPF instrument on other kernels: Debian's, each in a guest of qemu, which needs no KVM.

    make test-kernels                        Debian 12's, 13's and the newest; as root, some 6 minutes each
    make test-kernels KERNELS='7.0 7.2'      others, by version
    make test-kernels KERNELS=extract        makes the extracts in tests/kernels/btf anew, of those in kernels.toml

Kernels, qemu and the guest's packages come from the mirrors of this host's own apt, into IOFLAME_KERNELS (default:
target/kernels), and are used again; nothing is installed. In the guest only the loader runs, against a reader, a writer
and a sleeper (kernels.toml); what it leaves is judged here (judge.py). Exit code 1 where an instrument was wrong. Times
within a guest mean nothing: a program there takes 20 to 50 times as long.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ground.errors import EXIT_CHECK_FAILED, EXIT_OK, HostError, IoflameError, MeasurementError
from ground.system.atomic_files import read_toml
from ground.system.binaries import built_binary
from tests.kernels.debian import Suite
from tests.kernels.extract import write_extracts
from tests.kernels.guest import Machine, boot, machine
from tests.kernels.judge import Outcome, against_needs, judged, needs
from tests.kernels.kernels import Kernel, btf_of, chosen, image_of, kernels
from tests.places import ROOT

_HERE = ROOT / "tests" / "kernels"
_WORK = Path(os.environ.get("IOFLAME_KERNELS", ROOT / "target" / "kernels")).resolve()
_EXTRACT = "extract"
_SECONDS = 6
# Of a guest: some 5 minutes on an idle host.
_LIMIT_S = 3600.0
_MOST_WORDS = 400
# The way of devices without requests of their own; the guest's disk has them.
_BIOS = "bios"
# Of a table, by the names of its rows.
_Column = dict[str, str]


def _job(told: Mapping[str, Any], loader: Path, folder: Path) -> None:
    """A folder with what the guest runs."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(loader, folder / "ioflame-ebpf")
    shutil.copy(_HERE / "guest" / "job.sh", folder)
    lines, running = [], ""
    for window in told["window"]:
        if window["load"] != running:
            running = window["load"]
            load = told["load"][running]
            lines.append(f"load {running} {load['ready']} {shlex.quote(load['command'])}")
        lines.append(f"window {window['name']} {window.get('seconds', _SECONDS)} {window['words']}")
    (folder / "windows.sh").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _on(kernel: Kernel, told: Mapping[str, Any], place: Machine, job: Path, met: Mapping[str, bool]) -> _Column:
    """What each window of one boot was worth. met: whether the kernel has what an instrument needs"""
    out = _WORK / "out" / kernel.version
    try:
        seconds = boot(place, image_of(kernel, _WORK / "images"), job, out, _LIMIT_S)
        print(f"\n{kernel.version} ({kernel.build}): {seconds:.0f} s, {out}")
    except MeasurementError as error:
        print(f"\n{kernel.version} ({kernel.build}): {error}")
    found = {}
    for window in told["window"]:
        name, instrument = window["name"], window["words"].split()[0]
        judgement = against_needs(judged(instrument, window["load"], out / name), met[instrument])
        found[name] = judgement.outcome.value
        print(f"  {name}: {judgement.outcome.value}: {_short(judgement.words)}", flush=True)
    return found


def _short(words: str) -> str:
    """On one line, as far as it can be read there."""
    line = " ".join(words.split())
    return line if len(line) <= _MOST_WORDS else f"{line[:_MOST_WORDS]} ... ({len(line):,} characters)"


def _print(title: str, columns: Mapping[str, _Column]) -> None:
    """A table: a row for each name, a column for each kernel."""
    names = list(dict.fromkeys(name for column in columns.values() for name in column))
    width = max(map(len, (title, *names))) + 2
    print(f"\n{title:<{width}}" + "".join(f"{version:<10}" for version in columns))
    for name in names:
        print(f"{name:<{width}}" + "".join(f"{column.get(name, ''):<10}" for column in columns.values()))


def _held(kernels: Mapping[str, Path]) -> dict[str, dict[str, bool]]:
    """Prints what each kernel lacks, nothing booted for it; which instruments it can run on a disk with requests."""
    columns: dict[str, _Column] = {}
    met: dict[str, dict[str, bool]] = {}
    for version, btf in kernels.items():
        columns[version], met[version] = {}, {}
        for one in needs(btf):
            columns[version][f"{one['instrument']} {one['way']}".rstrip()] = "met" if one["works"] else "unmet"
            if one["way"] != _BIOS:
                met[version][one["instrument"]] = met[version].get(one["instrument"], False) or one["works"]
            if not one["works"]:
                print(f"  {version} {one['instrument']} {one['way']}: {one['words']}")
    _print("needs, by BTF", columns)
    return met


def _run(names: Sequence[str]) -> int:
    told = read_toml(_HERE / "kernels.toml")
    suites = {name: Suite(name, _WORK / "apt" / name) for name in told["suites"]}
    known = kernels(suites.values())
    extracting = list(names) == [_EXTRACT]
    wanted = chosen(told["extract"] if extracting else names or told["boot"], known)
    btf = {one.version: btf_of(one, image_of(one, _WORK / "images"), _WORK / "btf") for one in wanted}
    if extracting:
        write_extracts(btf.values())
        return EXIT_OK
    if os.geteuid() != 0:
        raise HostError("test-kernels makes a root of files that belong to root", mend="sudo make test-kernels")
    met = _held(btf)
    place, job = machine(told, suites, _WORK), _WORK / "job"
    _job(told, built_binary("ioflame-ebpf"), job)
    found = {one.version: _on(one, told, place, job, met[one.version]) for one in wanted}
    _print("in a guest", found)
    outcomes = {outcome for column in found.values() for outcome in column.values()}
    return EXIT_CHECK_FAILED if outcomes & {Outcome.WRONG.value, Outcome.NOT_RUN.value} else EXIT_OK


def main() -> int:
    try:
        return _run(sys.argv[1:])
    except IoflameError as error:
        print(error, file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
