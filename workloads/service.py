"""What is known of a service that others run: how it is recognised, its rules, what its threads do, what counts its
queries."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ground.errors import UsageError
from ground.results.jobs import Jobs
from ground.results.stored_files import StoredFiles
from ground.text.toml import tomllib
from workloads.file_kinds import FilesReader, files_below, joined, with_kinds

_RULES = "service.categories.toml"


class Group(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Threads of one purpose: thread and title are patterns of the thread's name and of its process's command line.

    background: they serve no query: what they wait for is none of its time
    """

    name: str
    thread: str = ".*"
    title: str = ".*"
    background: bool = False


class CountPreset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """about: what it counts; command: prints it; lag: how old an answer may be, s"""

    about: str
    command: str
    lag: float = 0.0


class Service(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`service.toml` of a folder in `workloads/engines`.

    title:  its name in prose
    files:  patterns of the names of files, one of which its processes have mapped
    base:   the engine whose categories come first; its leaf view is used where the service has none of its own
    extends: the service's own rows follow the base's in each view; otherwise a view has only the service's
    symbol: a function that runs once a query, for a count of it
    general_rows: rows of the owner view that programs without it have, too
    group:  its threads by purpose, the first that fits; the others by their names
    count:  commands that print how many queries were finished
    advice: the values of {direct} and other placeholders in the advice of findings; its base's where it has none
    file_kinds: what a file is by its name below the data directory, as an engine's, where its base says nothing of it
    """

    title: str
    files: list[str]
    base: str
    extends: bool = True
    general_rows: list[str] = []
    group: list[Group] = []
    count: dict[str, CountPreset] = {}
    advice: dict[str, str] = {}
    file_kinds: dict[str, str] = {}

    def is_of(self, names: Iterable[str]) -> bool:
        """Whether a process that has mapped files of these names is of this service."""
        return any(re.fullmatch(pattern, name) for pattern in self.files for name in names)

    def group_of(self, thread: str, title: str) -> str:
        """Whose a thread is: digits at the end of a name count threads of one purpose."""
        for group in self.group:
            if re.fullmatch(group.thread, thread) and re.fullmatch(group.title, title, re.DOTALL):
                return group.name
        return thread.rstrip("0123456789").rstrip("-_:/#. ") or thread


def read_service(folder: Path) -> Service:
    """UsageError where the folder's `service.toml` is none."""
    path = folder / "service.toml"
    try:
        return msgspec.toml.decode(path.read_bytes(), type=Service)
    except (OSError, msgspec.ValidationError, msgspec.DecodeError) as error:
        raise UsageError(f"{path} describes no service: {error}") from None


def merged_rules(service: Service, folder: Path, base: Path) -> dict[str, Any]:
    """The rules of a service: its base's, and its own rows.

    folder: of the service; base: the file of categories of the engine `service.base`
    """
    rules = tomllib.loads(base.read_text(encoding="utf-8"))
    # Each further view of an engine is a file beside it: what `other` mostly is, and findings, rest on its parts.
    for path in sorted(base.parent.glob(f"{base.stem}.*{base.suffix}")) if service.extends else ():
        further = tomllib.loads(path.read_text(encoding="utf-8"))
        rules["view"] |= further["view"]
        rules["patterns"] = {**rules.get("patterns", {}), **further.get("patterns", {})}
    own = folder / _RULES
    if not own.exists():
        return rules
    more = tomllib.loads(own.read_text(encoding="utf-8"))
    views = dict(rules["view"]) if service.extends else {"leaf": rules["view"]["leaf"]}
    for name, view in more["view"].items():
        before = views[name]["category"] if service.extends and name in views else []
        views[name] = {**views.get(name, {}), **view, "category": [*before, *view["category"]]}
    patterns = {**rules.get("patterns", {}), **more.get("patterns", {})}
    return {**rules, **more, "view": views, "patterns": patterns}


def rules_text(rules: Mapping[str, Any]) -> str:
    """Rules as a file that stackfold reads."""
    lines = [*_pairs({name: value for name, value in rules.items() if name not in ("view", "patterns")})]
    lines += ["", "[patterns]", *_pairs(rules.get("patterns", {}))]
    for name, view in rules["view"].items():
        lines += ["", f"[view.{json.dumps(name)}]", *_pairs({k: v for k, v in view.items() if k != "category"})]
        for entry in view["category"]:
            lines += ["", f"[[view.{json.dumps(name)}.category]]", *_pairs(entry)]
    return "\n".join([*lines, ""])


def _pairs(values: Mapping[str, object]) -> Iterable[str]:
    """Strings, numbers, truth values and lists of strings: JSON's are TOML's."""
    return (f"{json.dumps(name)} = {json.dumps(value)}" for name, value in values.items())


@dataclass(frozen=True)
class ServiceFiles:
    """base: the engine whose databases lie within the service's directory; None where it has an engine of its own"""

    service: Service
    base: FilesReader | None

    def stored_files(self, directory: Path) -> StoredFiles:
        """As `Engine.stored_files`."""
        files = self.base.stored_files(directory) if self.base else files_below(directory, {})
        return with_kinds(files, self.service.file_kinds)

    def stored_files_of_window(self, before: StoredFiles, after: StoredFiles) -> StoredFiles:
        """As `Engine.stored_files_of_window`."""
        if self.base is None:
            return joined(before, after)
        return with_kinds(self.base.stored_files_of_window(before, after), self.service.file_kinds)

    def jobs(self, directory: Path, begin: float, end: float) -> Jobs | None:
        """As `Engine.jobs`."""
        return self.base.jobs(directory, begin, end) if self.base else None
