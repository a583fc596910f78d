"""The engines there are: the folders in `workloads/engines`, by name."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import workloads.engines
from ground.errors import UsageError
from ground.results.stored_files import StoredFiles
from ground.settings import Setting
from ground.text.ranges import choice
from ground.text.toml import tomllib
from workloads.engine import Engine
from workloads.file_kinds import FilesReader
from workloads.service import Service, ServiceFiles, merged_rules, read_service

DEFAULT_ENGINE = "rocksdb"


@dataclass(frozen=True)
class Rules:
    """What is known of an engine's stacks.

    categories: as stackfold takes them; locks: the lock primitives of its own; findings: its own, none or one file
    aliases:    functions that it renamed from version to version, none or one file
    reasons:    what requests of a device are sent for, by the stacks that send them, none or one file
    """

    categories: str
    locks: Path
    findings: tuple[Path, ...]
    aliases: tuple[Path, ...] = ()
    reasons: tuple[Path, ...] = ()


def engine_names() -> tuple[str, ...]:
    """Those that we can run ourselves."""
    return _folders_with("engine.toml")


def service_names() -> tuple[str, ...]:
    """Those that somebody else runs, and whose stacks and threads we know."""
    return _folders_with("service.toml")


def _folders_with(file: str) -> tuple[str, ...]:
    names = (module.name for module in pkgutil.iter_modules(workloads.engines.__path__) if module.ispkg)
    return tuple(sorted(name for name in names if (_folder(name) / file).exists()))


def _folder(name: str) -> Path:
    places = (Path(place, name) for place in workloads.engines.__path__)
    return next(place for place in places if place.is_dir())


def service_named(name: str) -> Service:
    """UsageError with the known names where there is none."""
    if name not in service_names():
        raise UsageError(
            f"--engine {name}: nothing is known of such a service",
            means="nothing was attached",
            mend=f"--engine {'|'.join(service_names())}, or rules of your own: --rules FILE",
        )
    return read_service(_folder(name))


def service_rules(name: str) -> dict[str, Any]:
    """The rules of the service called `name`, as `rules_text` writes them."""
    service = service_named(name)
    return merged_rules(service, _folder(name), _folder(service.base) / "categories.toml")


def service_advice(name: str) -> Mapping[str, str]:
    """The words of the service called `name` in what changes a finding: its own, or its engine's."""
    service = service_named(name)
    if service.advice or not service.extends:
        return service.advice
    # Of the engine its words alone: importing all of it takes 30 ms of CPU, while a service waits to have its own back.
    return _advice(_folder(service.base) / "engine.toml")


def _advice(engine: Path) -> dict[str, str]:
    advice: dict[str, str] = tomllib.loads(engine.read_text(encoding="utf-8")).get("advice", {})
    return advice


def engine_named(name: str, own: Mapping[str, Any] | None = None, client: str | None = None) -> Engine:
    """The engine called `name`, with steps, workloads and configurations of the user's own where they are given.

    client: that drives it; None for its default. UsageError with the known names otherwise.
    """
    choice(Setting.ENGINE, name, engine_names())
    engine: Engine = import_module(f"workloads.engines.{name}.engine").ENGINE(own, client)
    return engine


def files_reader(name: str) -> FilesReader:
    """Who knows the files of the engine called `name`, or of the service; UsageError with the known names otherwise."""
    if name in engine_names():
        return engine_named(name)
    service = service_named(name)
    return ServiceFiles(service, engine_named(service.base) if service.extends else None)


def file_kinds(name: str) -> Mapping[str, str]:
    """Kinds of files by patterns of their names, of the engine or the service called `name`; UsageError otherwise."""
    if name in engine_names():
        return engine_named(name).about.file_kinds
    service = service_named(name)
    return service.file_kinds or (engine_named(service.base).about.file_kinds if service.extends else {})


def titled(name: str, files: StoredFiles, connection: str) -> StoredFiles:
    """The same files with what users call them, asked of the service itself; as they are where `connection` is "".

    connection: as the service's own client takes it. UsageError where its files have no such names; HostError and
    MeasurementError where it cannot be asked.
    """
    if not connection:
        return files
    try:
        found: StoredFiles = import_module(f"workloads.engines.{name}.titles").titled(files, connection)
    except ModuleNotFoundError:
        raise UsageError(
            f"files of {name} have no other names that could be asked for with {connection!r}",
            means="nothing was attached",
            mend="leave the connection out",
        ) from None
    return found


def ladder_symbols() -> Path:
    """Where the ladder of a service puts its probes: of the default engine."""
    return _folder(DEFAULT_ENGINE) / "symbols.toml"


def engine_frames(name: str) -> tuple[str, ...]:
    """Patterns of the functions of the engine called `name`, as its rules have them."""
    rules = tomllib.loads((_folder(name) / "categories.toml").read_text(encoding="utf-8"))
    return tuple(rules["engine_frames"])


def rules_named(name: str) -> Rules:
    """Those of the engine called `name`; of another name, a file of the user's own, with the default engine's locks."""
    known = name in engine_names()
    folder = _folder(name if known else DEFAULT_ENGINE)
    optional = (folder / f"{file}.toml" for file in ("findings", "aliases", "reasons"))
    return Rules(
        str(folder / "categories.toml") if known else name,
        folder / "locks.toml",
        *((file,) if file.exists() else () for file in optional),
    )
