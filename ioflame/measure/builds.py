"""The builds that DB_BENCH names: one, or several by commas, each with a name of its own."""

from __future__ import annotations

import re
from pathlib import Path

from ground.errors import UsageError
from ground.settings import Setting
from workloads.engine import Engine, EngineBuild

__all__ = ("named_builds",)

_NAMED = re.compile(r"([\w.+-]{1,40})=(.+)", re.DOTALL)


def named_builds(engine: Engine, asked: str | None) -> dict[str, EngineBuild]:
    """By name, the base first: `NAME=PATH,NAME=PATH`; without a name it is the engine's version.

    One alone is called "": there is nothing to tell it from. One build may stand under two names: what
    differs then is noise. UsageError where two have one name.
    """
    if asked is None:
        return {"": engine.inspect(engine.find_binary(None))}
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
    return found if len(found) > 1 else {"": build}
