"""The compilers of builds that are compared: where they are not the same, a difference may be the compiler's."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Of .comment: `GCC: (Debian 12.2.0-14) 12.2.0`, `Debian clang version 14.0.6`.
_COMPILERS = {"gcc": r"GCC: \(.*?\) (\d+(?:\.\d+)+)", "clang": r"clang version (\d+(?:\.\d+)+)"}


def compiler_name(comment: str) -> str:
    """`gcc 11.2.1`: the newest compiler named in a file's .comment; libraries linked in may be built by older ones.

    The comment unchanged where it names no known compiler.
    """
    found = [(name, version) for name, pattern in _COMPILERS.items() for version in re.findall(pattern, comment)]
    newest = max(found, key=lambda one: [int(part) for part in one[1].split(".")], default=None)
    return " ".join(newest) if newest else comment


def compilers_apart(builds: Mapping[str, tuple[str, str]]) -> str:
    """`10.5.1: gcc 11.2.1; 10.4.2: gcc 7.3.1. A difference may be the compiler's.`, or "" where nothing is mixed up.

    builds: by name the engine's version and what the file says of its compiler. Builds of one version differ by their
    compiler on purpose.
    """
    known = {name: (version, compiler_name(said)) for name, (version, said) in builds.items() if said}
    if len({version for version, _ in known.values()}) < 2 or len({compiler for _, compiler in known.values()}) < 2:
        return ""
    by_compiler = "; ".join(f"{name}: {compiler}" for name, (_, compiler) in known.items())
    return f"{by_compiler}. A difference may be the compiler's."
