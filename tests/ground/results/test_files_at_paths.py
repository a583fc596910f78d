"""The table of files at paths, as crates/symbolize reads it."""

from __future__ import annotations

from pathlib import Path

from ground.results.files_at_paths import PACKED, FileAtPath, write_files_at_paths


def test_a_line_each_and_none_for_a_path_that_would_be_two(tmp_path: Path) -> None:
    files = [
        FileAtPath("/usr/lib/a library.so", 254, 1, 1314, "0aff"),
        FileAtPath("/opt/none", 0, 35, 7),
        FileAtPath("/tmp/x\n254:1 99 0aff /usr/lib/libc.so.6", 254, 1, 8),
        FileAtPath("/tmp/no \udcff UTF-8", 254, 1, 9),
    ]
    write_files_at_paths(tmp_path / PACKED, files)
    assert (tmp_path / PACKED).read_bytes() == (
        b"ioflame-files 1\n254:1 1314 0aff /usr/lib/a library.so\n0:35 7 - /opt/none\n254:1 9 - /tmp/no \xff UTF-8\n"
    )
