"""Our own client (`workloads/client`, in Rust): what it says of itself, and its closing lines.

Each line that it prints of its own is JSON: `{"about": ...}` first, and one with `"benchmark"` for each that it ran.
Its tables are the engine's own words.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ground.errors import EXIT_USAGE, HostError, IoflameError, UsageError
from ground.results.checks import Check, Verdict
from ground.settings import Setting
from ground.system.binaries import built_binary
from ground.system.process import Output, capture
from ground.system.scratch import scratch_directory
from workloads.build import EngineBuild
from workloads.elf import asserts, frame_pointer_share, symbol_kind
from workloads.engine import OUR_CLIENT, Engine, EngineResult
from workloads.libraries import Library

# What it drives to see what it costs itself.
_NO_ENGINE = "nothing"
# Before its words on what failed.
_PREFIX = "ioflame-client: error: "


def inspected(
    engine: Engine, binary: Path, functions: str = "", library: Library | None = None,
    hardware: Callable[[str], Mapping[str, str]] = lambda _: {},
) -> EngineBuild:  # fmt: skip
    """What the client says of an engine, by a database of one key. HostError, with its words, where it does not run.

    functions: how the engine's symbols begin, where its code is part of the client
    library:   that has the engine's code; UsageError where it has not
    hardware:  what the engine's own log says of the CPU's help
    """
    fill = engine.step("load").benchmarks.partition(",")[0]
    with scratch_directory() as scratch:
        opened = [f"--library={library.path}"] if library else []
        argv = [
            str(binary),
            f"--engine={engine.name}",
            *opened,
            f"--benchmarks={fill}",
            "--num=1",
            f"--db={scratch}/db",
        ]
        done = capture(argv, timeout=60)
        own_log = scratch / "db" / engine.own_log
        said = hardware(own_log.read_text(encoding="utf-8", errors="replace")) if own_log.is_file() else {}
    about = next(iter(lines_of(done.text, "about")), None)
    if done.returncode != 0 or about is None:
        if library is not None:
            raise _not_opened(engine, library, done)
        words, _, mend = done.errors.strip().partition("\n  fix: ")
        raise HostError(
            f"{binary} does not run {engine.about.title}: {words or f'exit code {done.returncode}, without a word'}",
            mend=mend or f"make setup; {shlex.join(argv[:-1])} --db=$(mktemp -d)",
        )
    code = Path(about["library"] or binary).resolve()
    return EngineBuild(
        path=binary,
        version=about["version"],
        # Both C++ engines are a namespace; LMDB has assertions of its own, which are off in a release.
        assertions=asserts(code, engine.name),
        symbols=symbol_kind(code),
        frame_pointers=frame_pointer_share(code, functions),
        code=code,
        warnings=(),
        flags=None,
        left_out={},
        hardware=said,
        library=library.path if library else None,
        released=library.facts if library else {},
    )


def _not_opened(engine: Engine, library: Library, done: Output) -> IoflameError:
    """Why a library does not run, in the client's words: it is another's, or this host cannot load it."""
    what, means, mend = client_words(done.errors)
    kind = UsageError if done.returncode == EXIT_USAGE else HostError
    return kind(
        what.replace("--library=", "") or f"{library.path}: the client ended with exit code {done.returncode}",
        means=means or f"it does not run as {engine.about.title}",
        mend=mend.replace("--library", str(Setting.ROCKSDB)) or shlex.join(done.argv),
    )


def client_words(errors: str) -> tuple[str, str, str]:
    """What failed, what it means and what mends it, of what the client printed; "" for what it did not say."""
    what, _, rest = errors.strip().removeprefix(_PREFIX).partition("\n  meaning: ")
    means, _, mend = rest.partition("\n  fix: ")
    return what, means, mend


def client_checks(engines: Iterable[Engine]) -> Iterator[Check]:
    """Which of these engines it was built without."""
    try:
        said = capture([str(built_binary("ioflame-client")), "--help"], timeout=20).text
    except HostError as error:
        yield Check(
            "ioflame-client", Verdict.NOTE, error.what, f"{Setting.CLIENT.to(OUR_CLIENT)} is not possible", error.mend
        )
        return
    built = said.rpartition("built with: ")[2].strip().split(", ")
    yield Check("ioflame-client", Verdict.OK, f"drives {', '.join(name for name in built if name != _NO_ENGINE)}")
    for engine in engines:
        if OUR_CLIENT in engine.clients and engine.name not in built:
            mend = f"sudo apt-get install {engine.about.package} && make setup"
            means = f"{Setting.ENGINE.to(engine.name)} cannot be measured"
            yield Check("ioflame-client", Verdict.NOTE, f"built without {engine.name}", means, mend)


def lines_of(log: str, key: str) -> list[Any]:
    """What the client's lines of JSON hold under `key`, the first first; lines that are none are passed over."""
    found = []
    for line in log.splitlines():
        if line.startswith("{"):
            try:
                data = json.loads(line)
            except ValueError:
                continue
            found += [data[key]] if isinstance(data, dict) and key in data else []
    return found


def closing_line(log: str, benchmark: str) -> dict[str, Any] | None:
    """What it said at the end of `benchmark`; None where it did not reach it."""
    return next(iter(closing_lines(log, benchmark)), None)


def closing_lines(log: str, benchmark: str) -> list[dict[str, Any]]:
    """The same where it ran it more than once, in the order of the runs."""
    return [line for line in _closing_lines(log) if line["benchmark"] == benchmark]


def result_of(log: str, benchmark: str) -> EngineResult | None:
    """Its closing line of `benchmark`, of the readers where there are any; None where there is none."""
    whole = closing_line(log, benchmark)
    if whole is None:
        return None
    role = whole["roles"].get("readers") or whole["roles"]["writers"]
    seconds, operations = float(whole["seconds"]), int(role["operations"])
    reads = int(role["reads"])
    # Of a rate from its own schedule: from the call alone a queue behind slow operations would not be seen.
    latencies = list(role.get("latency_from_schedule_us", role["latency_from_call_us"]).values())
    # Several kinds of operation have no percentile in common, and a rate that was not held has none at all.
    latency = latencies[0] if len(latencies) == 1 and role.get("usable", True) else {}
    named = {"p50": "p50", "p75": "p75", "p99": "p99", "p99_9": "p99_9", "p99_99": "p99_99", "pmax": "max"}
    return EngineResult(
        micros_per_op=role["threads"] * seconds * 1e6 / operations if operations else 0.0,
        ops_per_second=role["ops_per_second"],
        seconds=seconds,
        operations=operations,
        found=int(role["found"]) if reads else None,
        reads=reads or None,
        mb_per_second=role["bytes"] / 2**20 / seconds if seconds else None,
        **{name: float(latency[of]) for name, of in named.items() if of in latency},
    )


def totals_of(log: str) -> dict[int, list[tuple[float, int]]]:
    """`Engine.thread_totals` by its closing line: the writers' operations at its end as 0, the readers' as 1."""
    for line in _closing_lines(log):
        roles = line["roles"]
        if {"readers", "writers"} <= roles.keys():
            return {n: [(line["seconds"], roles[role]["operations"])] for n, role in enumerate(("writers", "readers"))}
    return {}


def _closing_lines(log: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.splitlines() if line.startswith('{"benchmark":') and line.endswith("}")]
