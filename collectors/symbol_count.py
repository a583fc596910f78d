"""How often a function of a target runs: a uprobe for a second, for services that count no queries themselves."""

from __future__ import annotations

import contextlib
import re
import shlex
import signal
from collections.abc import Sequence
from pathlib import Path

from ground.errors import HostError, MeasurementError, UsageError
from ground.system.held_process import HeldProcess
from ground.system.process import Children, Output, capture, tool_path

__all__ = ("calls_in", "probes_of")

_ATTACH_SECONDS = 30.0
_KERNEL_TYPES = Path("/sys/kernel/btf/vmlinux")
_COUNTED = re.compile(r"@calls: (\d+)")
_PLAIN = re.compile(r"[A-Za-z_]\w*")
# Of a function that the compiler split: what is reached by a jump, or called by the rest of it; a name more for it.
_NO_CALL = {"cold", "part", "localalias"}


def probes_of(symbol: str, processes: Sequence[HeldProcess]) -> list[str]:
    """The probes on a function as bpftrace names them: for each process in the first of its files that has it.

    symbol: a name as the linker knows it, or a qualified one of C++: then all its overloads. UsageError where no file
    has it; HostError where the files may not be read.
    """
    name, linked = _linker_names(symbol)
    known: dict[tuple[int, int], list[str]] = {}
    found: dict[str, None] = {}
    for process in processes:
        for file in _code_files(process):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                status = Path(file).stat()
                number = status.st_dev, status.st_ino
                if number not in known:
                    known[number] = _listed(file, name, linked)
                if known[number]:
                    found |= dict.fromkeys(known[number])
                    break
    if not found:
        pid = processes[0].pid
        raise UsageError(
            f"--count-symbol {symbol}: none of {len(known)} files of {len(processes)} processes has such a function",
            means="a stripped program keeps the names that it exports alone; nothing was attached",
            mend=f"bpftrace -l {shlex.quote(f'uprobe:/proc/{pid}/exe:*')}   (what one of them has)",
        )
    return list(found)


def _linker_names(symbol: str) -> tuple[str, re.Pattern[str]]:
    """A part of the linker names of all overloads and clones of a function, and a pattern for the whole names, by the
    Itanium C++ ABI (5.1.6): also of const overloads and those with GNU's tag for strings."""
    if _PLAIN.fullmatch(symbol):
        return symbol, re.compile(rf"{symbol}(\..*)?")
    parts = symbol.split("::")
    if not all(_PLAIN.fullmatch(part) for part in parts):
        raise UsageError(
            f"--count-symbol {symbol} is no qualified name: namespaces, classes and a function, without its arguments",
            means="nothing was attached",
            mend="--count-symbol space::Class::function, or a name as the linker knows it",
        )
    name = "".join(f"{len(part)}{part}" for part in parts)
    return name, re.compile(rf"_ZNV?K?[RO]?{name}(B5cxx11)?E.*")


def _listed(file: str, name: str, linked: re.Pattern[str]) -> list[str]:
    done = _bpftrace(["-l", f"uprobe:{file}:*{name}*"])
    lines = done.text.splitlines() if done.returncode == 0 else []
    names = sorted({line.rpartition(":")[2] for line in lines})
    calls = [one for one in names if linked.fullmatch(one) and not _NO_CALL & set(one.split("."))]
    return [f'uprobe:{file}:"{one}"' for one in calls]


def _code_files(process: HeldProcess) -> Sequence[str]:
    """What it has mapped to be run, by the paths that its mount namespace has, as we reach them."""
    try:
        lines = process.path("maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except PermissionError as error:
        raise HostError(
            f"/proc/{process.pid}/maps: {error.strerror}",
            means="which files it runs is not known",
            mend=f"ioflame doctor --attach {process.pid}",
        ) from None
    except OSError:
        return []
    words = (line.split(None, 5) for line in lines)
    paths = dict.fromkeys(w[5] for w in words if len(w) == 6 and "x" in w[1] and w[5].startswith("/"))
    return [path if Path(path).exists() else f"/proc/{process.pid}/root{path}" for path in paths]


def calls_in(children: Children, probes: Sequence[str], pids: Sequence[int], seconds: float, out: Path) -> int:
    """Calls in so many seconds, of the children too that they have meanwhile. MeasurementError where bpftrace fails
    or counts none.

    out: what bpftrace says. It is one of `children`, so that it ends with us whatever ends us.
    """
    watched = " ".join(f"@watched[{pid}] = 1;" for pid in pids)
    mine = "@watched[pid]"
    if _KERNEL_TYPES.exists():  # a fork's tracepoint would need tracefs as well, which uprobes do not
        mine += " || @watched[((struct task_struct *)curtask)->real_parent->tgid]"
    script = f"""BEGIN {{ {watched} }}
{", ".join(probes)} /{mine}/ {{ @calls = count(); }}
interval:ms:{int(seconds * 1000)} {{ exit(); }}
END {{ clear(@watched); }}"""
    argv = [tool_path("bpftrace", "bpftrace"), "-e", script]
    child = children.start("bpftrace", argv, stdout=out, stop_signal=signal.SIGINT)
    if child.wait(_ATTACH_SECONDS + seconds) is None:
        child.stop()
    said = out.read_text(encoding="utf-8", errors="replace")
    if child.returncode != 0:
        raise MeasurementError(f"bpftrace on {probes[0]} failed ({child.describe_end()}): {said.strip()[-400:]}")
    counted = _COUNTED.search(said)
    if counted is None or not int(counted[1]):
        raise MeasurementError(
            f"{' or '.join(probes)} was not called in {seconds:g} s",
            means="queries cannot be counted by it",
            mend="--count-symbol <a function that runs once a query>",
        )
    return int(counted[1])


def _bpftrace(arguments: Sequence[str]) -> Output:
    return capture([tool_path("bpftrace", "bpftrace"), *arguments], timeout=_ATTACH_SECONDS)
