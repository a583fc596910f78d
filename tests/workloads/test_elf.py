from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from workloads.elf import asserts, frame_pointer_share, symbol_kind

SOURCE = "".join(
    f"int g{i}(int*); int f{i}(int a) {{ int b[8] = {{a, a * {i}}}; return g{i}(b) + b[3] * 7 + {i}; }}\n"
    for i in range(40)
)


@pytest.fixture
def build(tmp_path: Path) -> object:
    def compiled(*flags: str) -> Path:
        out = tmp_path / f"lib{len(list(tmp_path.iterdir()))}.so"
        argv = ["cc", "-O1", "-shared", "-fPIC", *flags, "-x", "c", "-", "-o", str(out)]
        subprocess.run(argv, input=SOURCE, text=True, check=True)
        return out

    return compiled


def test_frame_pointers_are_told_from_their_absence(build: object) -> None:
    assert callable(build)
    kept = frame_pointer_share(build("-fno-omit-frame-pointer"))
    omitted = frame_pointer_share(build("-fomit-frame-pointer"))
    assert kept is not None
    assert kept > 0.9
    assert omitted == 0.0


def test_symbols_are_told_by_what_the_file_holds(build: object) -> None:
    assert callable(build)
    assert symbol_kind(build("-g")) == "debug info"
    assert symbol_kind(build()) == "symbol table"
    assert symbol_kind(build("-s")) == "exported names only"
    assert symbol_kind(Path(__file__)) == "not an ELF file"
    assert frame_pointer_share(Path(__file__)) is None


def test_assertions_are_the_engines_own_and_not_those_of_what_is_linked_in(tmp_path: Path) -> None:
    part = (
        "#include <cassert>\n#include <stdlib.h>\n"
        "namespace {0} {{ int Get(int n) {{ assert(n > abs(n)); return n; }} }}\n"
    )

    def library(engine: str, linked: str, *flags: str) -> Path:
        sources: list[Path] = []
        for name, options in (("rocksdb", engine), ("snappy", linked)):
            source = tmp_path / f"{name}.cc"
            source.write_text(part.format(name), encoding="ascii")
            argv: list[str | Path] = [
                "c++",
                "-O2",
                "-fPIC",
                "-c",
                *options.split(),
                source,
                "-o",
                source.with_suffix(".o"),
            ]
            subprocess.run(argv, check=True)
            sources.append(source.with_suffix(".o"))
        out = tmp_path / "lib.so"
        subprocess.run(["c++", "-shared", *flags, *sources, "-o", out], check=True)
        return out

    assert asserts(library("", "", "-s"), "rocksdb")
    release = library("-DNDEBUG", "")
    names = subprocess.run(["nm", "-D", release], capture_output=True, check=True, text=True).stdout
    assert "U __assert_fail" in names
    assert not asserts(release, "rocksdb") and asserts(release, "snappy")
    assert not asserts(Path(__file__), "rocksdb")
