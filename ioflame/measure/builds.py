"""The build that is asked for: a client that DB_BENCH names, or a library that ROCKSDB names; or several, by commas."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

from ground.errors import RefusedError, UsageError
from ground.settings import Setting
from ground.text.progress import Reporter
from ioflame.measure.options import ProfileOptions
from workloads.build import EngineBuild
from workloads.engine import Engine
from workloads.libraries import asked_libraries, found_library
from workloads.scales import DatabaseShape

_NAMED = re.compile(r"([\w.+-]{1,40})=(.+)", re.DOTALL)


def build_of(engine: Engine, options: ProfileOptions, reporter: Reporter | None = None) -> EngineBuild:
    """The one build of a profile or an arm; a release that is not here yet is fetched, which a line tells."""
    if options.library is None:
        return engine.inspect(engine.find_binary(options.db_bench))
    asked = asked_libraries(engine.releases(), [options.library])
    if len(asked) > 1:
        raise RefusedError(
            f"{Setting.ROCKSDB.to(options.library)}: {len(asked)} libraries; one is run here",
            mend=f"{Setting.ROCKSDB.to(shlex.quote(asked[0].what))}, or several: ioflame compare",
        )
    return _of_library(engine, asked[0].what, reporter)


def _of_library(engine: Engine, what: str, reporter: Reporter | None) -> EngineBuild:
    library = found_library(engine.releases(), what, reporter or Reporter.on_terminal())
    return engine.inspect_library(engine.find_binary(None), library)


def named_builds(
    engine: Engine, clients: str | None, library: str | None, reporter: Reporter | None = None
) -> dict[str, EngineBuild]:
    """By name, the base first: `NAME=PATH,NAME=PATH`; without a name it is the engine's version.

    clients: builds of the client; library: of the engine's code, instead of them; None for both: what is installed
    One build may have two names: any difference is then noise. UsageError where two have one name.
    """
    if library is not None:
        libraries = asked_libraries(engine.releases(), [library])
        return {one.name: _of_library(engine, one.what, reporter) for one in libraries}
    if clients is None:
        build = engine.inspect(engine.find_binary(None))
        return {build.version: build}
    return _of_clients(engine, clients)


def _of_clients(engine: Engine, asked: str) -> dict[str, EngineBuild]:
    found: dict[str, EngineBuild] = {}
    for text in asked.split(",") if not Path(asked).exists() else [asked]:
        match = _NAMED.fullmatch(text) if not Path(text).exists() else None
        build = engine.inspect(engine.find_binary(match[2] if match else text))
        name = match[1] if match else build.version
        if name in found:
            raise UsageError(
                f"{Setting.DB_BENCH.to(asked)}: two builds are called {name}",
                means="their figures could not be distinguished; nothing was started",
                mend=Setting.DB_BENCH.to("gcc=<path>,clang=<path>   (names of your choice, the base first)"),
            )
        found[name] = build
    return found


def readable_by_all(engine: Engine, options: ProfileOptions, shape: DatabaseShape) -> DatabaseShape:
    """The shape of a database that every release can read, where a library is asked for."""
    return shape if options.library is None else replace(shape, tree={**engine.releases().tree, **shape.tree})
