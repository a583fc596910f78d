"""Jars made from the librocksdb of this host, as Maven Central has them of a release; and lists of such releases."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ground.system.atomic_files import file_sha256
from workloads.engines.rocksdb.engine import RocksDB
from workloads.releases import Release, Releases

MULTI_GET = b"rocksdb_batched_multi_get_cf\0"
ROCKSDB = RocksDB().releases()


def host_library() -> Path:
    """Debian's, which db_bench brings along."""
    folders = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib")
    found = (path for folder in folders for path in sorted(Path(folder).glob("librocksdb.so.*.*.*")))
    return next(found).resolve()


def altered(library: Path, to: Path, old: bytes, new: bytes) -> Path:
    """A copy of a library in which a name of its table of exported names is another of the same length."""
    assert len(old) == len(new)
    content = library.read_bytes()
    assert content.count(old) == 1
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_bytes(content.replace(old, new))
    return to


def jar_of(files: Mapping[str, Path | bytes], to: Path) -> Path:
    """files: by their names in the jar"""
    to.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        packed.writestr("org/rocksdb/RocksDB.class", b"class")
        for name, content in files.items():
            if isinstance(content, bytes):
                packed.writestr(name, content)
            else:
                with packed.open(name, "w") as target, content.open("rb") as source:
                    shutil.copyfileobj(source, target)
    return to


def own_member() -> str:
    """What the jar calls the library of this machine."""
    return ROCKSDB.members[os.uname().machine]


def listing(jars: Mapping[str, Path]) -> Releases:
    """A list of releases whose jars are these, by version."""
    return msgspec.structs.replace(
        ROCKSDB,
        release=[
            Release(version=version, sha256=file_sha256(jar), megabytes=1, compiler={}, bundled="snappy 1.1.9")
            for version, jar in jars.items()
        ],
    )
