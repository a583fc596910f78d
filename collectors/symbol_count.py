"""How often a function of a target runs: a uprobe for a second, for services that count no queries themselves."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Sequence
from pathlib import Path

from ground.errors import HostError, MeasurementError, UsageError
from ground.system.held_process import HeldProcess
from ground.system.process import Children, Output, capture, tool_path

__all__ = ("calls_in", "probe_of")

_ATTACH_SECONDS = 30.0
_COUNTED = re.compile(r"@calls: (\d+)")
_PLAIN = re.compile(r"[A-Za-z_]\w*")


def probe_of(symbol: str, process: HeldProcess) -> str:
    """The probe on a function in the first file of the process that has it, as bpftrace names it.

    symbol: a name as the linker knows it, or a qualified one of C++: then all its overloads. UsageError where no file
    has it; HostError where the files may not be read.
    """
    name = symbol if _PLAIN.fullmatch(symbol) else _mangled(symbol)
    files = _code_files(process)
    for file in files:
        found = _bpftrace(["-l", f"uprobe:{file}:{name}"])
        if found.returncode == 0 and found.text.strip():
            return f"uprobe:{file}:{name}"
    raise UsageError(
        f"--count-symbol {symbol}: none of {len(files)} files of process {process.pid} has such a function",
        means="a stripped program keeps the names that it exports alone; nothing was attached",
        mend=f"bpftrace -l {shlex.quote(f'uprobe:/proc/{process.pid}/exe:*')}   (what one of them has)",
    )


def _mangled(symbol: str) -> str:
    """All overloads of a qualified function, as the C++ ABI of Itanium names them (5.1.6 of it)."""
    parts = symbol.split("::")
    if not all(_PLAIN.fullmatch(part) for part in parts):
        raise UsageError(
            f"--count-symbol {symbol} is no qualified name: namespaces, classes and a function, without its arguments",
            means="nothing was attached",
            mend="--count-symbol space::Class::function, or a name as the linker knows it",
        )
    return f"_ZN{''.join(f'{len(part)}{part}' for part in parts)}E*"


def _code_files(process: HeldProcess) -> Sequence[str]:
    """What it has mapped to be run, by the paths that its mount namespace has, as we reach them."""
    try:
        lines = process.path("maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise HostError(
            f"/proc/{process.pid}/maps: {error.strerror}",
            means="which files it runs is not known",
            mend=f"ioflame doctor --attach {process.pid}",
        ) from None
    words = (line.split(None, 5) for line in lines)
    paths = dict.fromkeys(w[5] for w in words if len(w) == 6 and "x" in w[1] and w[5].startswith("/"))
    return [path if Path(path).exists() else f"/proc/{process.pid}/root{path}" for path in paths]


def calls_in(children: Children, probe: str, pids: Sequence[int], seconds: float, out: Path) -> int:
    """Calls in so many seconds. MeasurementError where bpftrace cannot tell them.

    out: what bpftrace says. It is one of `children`, so that it ends with us whatever ends us.
    """
    mine = " || ".join(f"pid == {pid}" for pid in pids)
    script = f"{probe} /{mine}/ {{ @calls = count(); }} interval:ms:{int(seconds * 1000)} {{ exit(); }}"
    argv = [tool_path("bpftrace", "bpftrace"), "-e", script]
    child = children.start("bpftrace", argv, stdout=out, stop_signal=signal.SIGINT)
    if child.wait(_ATTACH_SECONDS + seconds) is None:
        child.stop()
    said = out.read_text(encoding="utf-8", errors="replace")
    if child.returncode != 0:
        raise MeasurementError(f"bpftrace on {probe} failed ({child.describe_end()}): {said.strip()[-400:]}")
    counted = _COUNTED.search(said)
    if counted is None:
        raise MeasurementError(
            f"{probe} was not called in {seconds:g} s",
            means="queries cannot be counted by it",
            mend="--count-symbol <a function that runs once a query>",
        )
    return int(counted[1])


def _bpftrace(arguments: Sequence[str]) -> Output:
    return capture([tool_path("bpftrace", "bpftrace"), *arguments], timeout=_ATTACH_SECONDS)
