"""What is read of ELF files, against readelf."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ground.system.elf import build_id, build_id_of_notes, sections
from tests.programs import compiled


def test_sections_and_build_id_are_those_of_readelf(tmp_path: Path) -> None:
    program = compiled("int main(void) { return 0; }", tmp_path / "program", "-g", "-Wl,--build-id")
    content = program.read_bytes()
    said = subprocess.run(["readelf", "-nSW", program], capture_output=True, text=True, check=True).stdout
    rows = re.findall(
        r"^ +\[ *\d+\] (\S+) +(\S+) +[0-9a-f]{16} ([0-9a-f]+) ([0-9a-f]+) \S+ +([A-Z]*) ", said, re.MULTILINE
    )
    known = {name: (int(offset, 16), int(size, 16), "X" in flags) for name, kind, offset, size, flags in rows}
    found = {one.name: (one.offset, one.size, one.executable) for one in sections(content) if one.name}
    assert len(known) > 20 and found == known
    assert build_id(content) == re.findall("Build ID: ([0-9a-f]+)", said)[0]
    assert build_id_of_notes(Path("/sys/kernel/notes").read_bytes())


@given(st.binary(max_size=200), st.integers(0, 200))
def test_anything_may_be_read(content: bytes, cut: int) -> None:
    head = b"\x7fELF\x02\x01" + content
    for text in (content, head, head[:cut]):
        assert isinstance(build_id(text), str)
    assert isinstance(build_id_of_notes(content), str)
