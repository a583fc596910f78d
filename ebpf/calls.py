"""How often a function of a target runs: a uprobe for a second, for services that count no queries themselves."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ebpf.observer import CoreObserver, loader_binary, option_words
from ground.errors import HostError, MeasurementError, UsageError
from ground.results.ranges import Count
from ground.system.atomic_files import read_json
from ground.system.process import Children, capture

_LOOKING_SECONDS = 60.0
# A client that was just started opens its database first, for seconds on a busy host.
_WINDOWS = 5
_NAME = re.compile(r"[A-Za-z_$.][\w$.]*")


class _Calls(msgspec.Struct):
    functions: list[str]
    files: Count
    calls: Count
    schema: int = 1


def functions_of(symbol: str, pids: Sequence[int]) -> list[str]:
    """`FILE:NAME` of each function that is meant: for each process in the first of its files that has it.

    symbol: a name as the linker knows it, or a qualified one of C++: then all its overloads. UsageError where no file
    has it; HostError where the files may not be read.
    """
    if not all(_NAME.fullmatch(part) for part in symbol.split("::")):
        raise UsageError(
            f"--count-symbol {symbol} is no qualified name: namespaces, classes and a function, without its arguments",
            means="nothing was attached",
            mend="--count-symbol space::Class::function, or a name as the linker knows it",
        )
    binary = loader_binary()
    if binary is None:
        raise HostError("ioflame-ebpf is not built", means="calls cannot be counted", mend="make setup")
    words = [str(binary), "calls", *option_words(function=symbol, pid=list(pids), list=True)]
    done = capture(words, timeout=_LOOKING_SECONDS)
    if done.returncode != 0:
        raise HostError(
            f"--count-symbol {symbol}: {done.text.strip()[-400:]}",
            means="which functions the target has is not known",
            mend=f"ioflame doctor --attach {pids[0]}",
        )
    found = msgspec.json.decode(done.stdout, type=_Calls)
    if not found.functions:
        raise UsageError(
            f"--count-symbol {symbol}: none of {found.files} files of {len(pids)} processes has such a function",
            means="a stripped program keeps the names that it exports alone; nothing was attached",
            mend=f"nm -C {shlex.quote(f'/proc/{pids[0]}/exe')} | grep -i ' t '   (what one of them has)",
        )
    return found.functions


def calls_in(children: Children, symbol: str, pids: Sequence[int], seconds: float, out: Path) -> int:
    """Calls in so many seconds by these processes; MeasurementError where there were none in several such windows.

    out: where the count goes; what its program says goes beside it
    """
    words = option_words(function=symbol, pid=list(pids))
    for _ in range(_WINDOWS):
        observer = CoreObserver("calls", f"calls of {symbol}", children, words, out)
        observer.attach()
        observer.open()
        time.sleep(seconds)  # the window itself
        observer.close()
        observer.detach()
        if counted := read_json(out, _Calls).calls:
            return counted
    raise MeasurementError(
        f"{symbol} was not called in {_WINDOWS * seconds:g} s",
        means="queries cannot be counted by it; calls in processes that started meanwhile are not seen",
        mend="--count-symbol <a function that runs once a query>",
    )
