"""What is not the same in several runs: asked, built or found. It is printed before any figure of theirs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from ground.results.record import ANALYSIS, Command, RunRecord
from ground.settings import OF_NO_FIGURE
from ground.system.host import describe_host

# What two runs must have in common for their figures to be compared (design, honesty rule 2): these, and the settings
# of the engine. Its version need not be: to compare two is why there are two runs. Another event or unit bars what was
# measured with it and no more, which `compare.runs` says.
_MUST_AGREE = ("workload", "engine", "threads")
_SETTING = "setting "
_NO_SETTING = (
    "--seed", "--db", "--wal_dir", "--library", "--report_file", "--duration", "--pid", "--output", "--stats",
    "--samples",
)  # fmt: skip
_OWN = ("directory", *OF_NO_FIGURE)  # where a run was kept says nothing about it
# Paths of the client: beside its SHA-256 they say nothing about it either.
_CLIENT = "engine_binary"
_PATHS = (f"tool {_CLIENT}", "tool engine_library")
_ARTIFACT = "engine_artifact"
_LIBRARY = "tool library "


def differences(records: Sequence[RunRecord]) -> list[tuple[str, list[str]]]:
    """What was asked, built or found that is not the same in all runs: its name, and the value in each.

    A command that only some of them ran, such as the load of a database that the others found, is one row. The same
    bits under two paths are no difference.
    """
    ran = [{command.name for command in _measuring(record)} for record in records]
    in_all = set.intersection(*ran)
    facts = [_facts(record, in_all) for record in records]
    names = list(dict.fromkeys(name for one in facts for name in one))
    if len({record.tools.get(_ARTIFACT) for record in records} | {None}) == 2:
        names = [name for name in names if name not in _PATHS and not _asks_for_client(name, facts, records)]
    rows = [(name, [one.get(name, "-") for one in facts]) for name in names]
    return [(name, values) for name, values in rows if len({_identity(name, value) for value in values}) > 1]


def _identity(name: str, value: str) -> str:
    """Of a library its build id, whatever its file is called."""
    return value.rpartition(" ")[2] if name.startswith(_LIBRARY) else value


def _asks_for_client(name: str, facts: Sequence[Mapping[str, str]], records: Sequence[RunRecord]) -> bool:
    """The option by which the client was given: its value is, wherever it is given, what the client is called."""
    given = [
        (one[name], record.tools.get(_CLIENT, "")) for one, record in zip(facts, records, strict=True) if name in one
    ]
    return name.startswith("option ") and all(Path(value).name == Path(client).name for value, client in given)


def barriers(records: Sequence[RunRecord]) -> list[str]:
    """What forbids that the runs be compared: differences in what they must have in common."""
    names = [name for name, _ in differences(records)]
    return [name for name in names if name in _MUST_AGREE or name.startswith(_SETTING)]


def said(rows: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Rows of `differences` in words: `setting --num 1000, 2000`"""
    return [f"{name} {', '.join(dict.fromkeys(values))}" for name, values in rows]


def _facts(record: RunRecord, in_all: Collection[str]) -> dict[str, str]:
    """in_all: the commands whose flags can be compared, because every run has them"""
    profile = record.profile
    facts = {
        "event": profile.event if profile else "-",
        "unit": profile.unit if profile else "-",
        "workload": record.workload,
        "engine": record.engine,
        "engine version": record.tools.get("engine", "?"),
        "threads": str(record.threads),
    }
    if profile:
        facts |= {"call graphs": profile.callgraph, "scope": profile.scope, "frequency": f"{profile.frequency} Hz"}
    for name, value in record.options.items():
        # A client's flag, of a command of the user's: as much a setting as one of ours.
        if name.startswith("--") and name not in _NO_SETTING:
            facts[f"{_SETTING}{name}"] = value
        elif name not in _OWN and not name.startswith("--"):
            facts[f"option {name}"] = value
    facts |= {f"database {name}": value for name, value in record.database.as_text().items() if name not in _OWN}
    facts |= {f"tool {name}": value for name, value in record.tools.items() if name != "engine"}
    facts["host"] = describe_host(record.host) if record.host else "-"
    facts |= {f"host {name}": value for name, value in record.host.items() if name not in ("cpu", "cpus")}
    for command in _measuring(record):
        if command.name not in in_all:
            facts[f"command {command.name}"] = "ran"
            continue
        for word in command.argv[1:]:
            flag, equals, value = word.partition("=")
            if not equals or flag in _NO_SETTING:
                continue
            if not flag.startswith("-"):
                facts[f"environment {flag}"] = value
                continue
            measured = command.name.endswith(record.workload)
            facts[f"{_SETTING if measured else ''}{command.name} {flag}"] = _without_place(record, value)
    facts["ioflame"] = record.ioflame
    return facts


def _without_place(record: RunRecord, value: str) -> str:
    """A file in the database, or in the run, by its name alone: each run has its own."""
    places = [record.database.directory, record.options.get("out", "")]
    within = any(place and Path(value).is_relative_to(Path(place).absolute()) for place in places)
    return Path(value).name if within else value


def _measuring(record: RunRecord) -> list[Command]:
    """The commands that had a part in what was measured; a run analysed again has others of the rest."""
    return [command for command in record.commands if command.name != ANALYSIS]
