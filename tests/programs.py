"""The one way to compile the C and C++ that tests watch."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the benchmarks compile, too, and know no pytest
    import pytest

# What tests say of programs whose callers are to be found by their frame pointers.
FRAMES = ("-O1", "-fno-omit-frame-pointer")


def compiled(source: Path | str, target: Path, *flags: str | Path, compiler: str = "") -> Path:
    """`target`, which is made of a file, or of text, by a compiler that works in target's directory.

    flags: come after the source, so that libraries and further sources may be among them. compiler: a name, with flags
    if need be; otherwise g++ for a file of C++, and cc. Raises RuntimeError with what the compiler said.
    """
    words = shlex.split(compiler or ("g++" if isinstance(source, Path) and source.suffix == ".cc" else "cc"))
    if isinstance(source, Path):
        given, text = [str(source.resolve())], ""
    else:
        given, text = ["-x", "c++" if "++" in words[0] else "c", "-", "-x", "none"], source
    argv = [*words, *given, *map(str, flags), "-o", str(target.resolve())]
    done = subprocess.run(argv, input=text, capture_output=True, text=True, cwd=target.parent, check=False)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(argv)}: exit code {done.returncode}\n{done.stderr}")
    return target


def built(places: pytest.TempPathFactory, source: Path, *flags: str) -> Path:
    """The program of a file without warnings, in a directory of its own."""
    return compiled(source, places.mktemp(source.stem) / source.stem, "-Wall", "-Werror", *flags)


def installed_library(name: str) -> Path | None:
    """A library that the C compiler finds, such as libc.so.6; None: it knows none of that name."""
    found = subprocess.run(["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=False).stdout
    # Of one that it does not know it prints the name.
    return Path(found.strip()) if found.startswith("/") else None
