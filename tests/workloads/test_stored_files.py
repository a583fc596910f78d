"""The files of databases that are made here, at one moment; those of services."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ground.errors import HostError, MeasurementError, UsageError
from ground.results.stored_files import StoredFile, StoredFiles
from tests.e2e.commands import script
from tests.engines.toy.engine import Toy
from tests.workloads.log_files import deleted, fragment, new_file, numbers, string
from tests.workloads.made_databases import by_name, database, told
from workloads.about import About
from workloads.engines.postgresql.titles import relation_of
from workloads.engines.rocksdb.options import newest_options
from workloads.engines.rocksdb.stored_files import DatabaseFiles
from workloads.file_kinds import files_below, kind_of
from workloads.registry import engine_named, files_reader, titled
from workloads.service import ServiceFiles

ROCKSDB, LEVELDB = engine_named("rocksdb"), engine_named("leveldb")
FLUSH = numbers(2, 7)
FAMILY = numbers(200, 1)


@pytest.mark.parametrize("engine", ["rocksdb", "leveldb", "lmdb"])
def test_an_engine_knows_its_files_by_their_names(engine: str) -> None:
    known = engine_named(engine)
    kinds = known.about.file_kinds
    names = [
        "LOCK", "LOG", "LOG.old", "LOG.old.1795737752127310", "CURRENT", "IDENTITY", "MANIFEST-000005", "000004.log",
        "OPTIONS-000007", "OPTIONS-000007.dbtmp", "000009.dbtmp", "000012.sst", "000012.ldb", "000012.blob",
        "data.mdb", "lock.mdb",
    ]  # fmt: skip
    for name in names:
        assert not known.is_database_file(name) or kind_of(name, kinds) != "other", name
    assert kind_of("notes.txt", kinds) == "other" and isinstance(known.about, About)


def test_a_kind_goes_by_the_whole_name() -> None:
    kinds = ROCKSDB.about.file_kinds
    found = {name: kind_of(name, kinds) for name in ("archive/000003.log", "x/000003.sst", "000003.sst.trash", "LOG")}
    assert found == {
        "archive/000003.log": "wal", "x/000003.sst": "other", "000003.sst.trash": "trash", "LOG": "log",
    }  # fmt: skip


def test_every_regular_file_below_is_there_once(tmp_path: Path) -> None:
    (tmp_path / "db/deep").mkdir(parents=True)
    (tmp_path / "db/deep/a.toy").touch()
    (tmp_path / "db/b.toy").touch()
    os.mkfifo(tmp_path / "db/pipe")
    (tmp_path / "db/deep/up").symlink_to(tmp_path / "db")
    (tmp_path / "else").mkdir()
    (tmp_path / "else/c.toy").touch()
    (tmp_path / "db/link").symlink_to(tmp_path / "else")
    (tmp_path / "db/dangling").symlink_to(tmp_path / "nothing")
    (tmp_path / "db/itself").symlink_to(tmp_path / "db/itself")
    # An engine without patterns of its own has its data files alone.
    assert told(Toy().stored_files(tmp_path / "db")) == {
        "b.toy": ("data", None, ""), "deep/a.toy": ("data", None, ""), "link/c.toy": ("data", None, ""),
    }  # fmt: skip
    with pytest.raises(UsageError, match="is not a directory"):
        files_below(tmp_path / "db/b.toy", {})


def test_a_file_has_level_family_and_parts(tmp_path: Path) -> None:
    edits = [FAMILY + numbers(201) + string(b"new"), FLUSH + new_file(8, 0), new_file(9, 6) + FAMILY, deleted(7, 1)]
    folder = database(tmp_path, [new_file(7, 1), *edits], [7, 8, 9, 30])
    (folder / "000031.sst").write_bytes(b"being written")
    (folder / "000010.blob").touch()
    (folder / "OPTIONS-000007").write_text("[DBOptions]\n", encoding="ascii")
    read = ROCKSDB.stored_files(folder)
    assert told(read) == {
        "000007.sst": ("sst", 1, "default"),  # deleted, and still there
        "000008.sst": ("sst", 0, "default"),
        "000009.sst": ("sst", 6, "new"),
        "000010.blob": ("blob", None, ""),
        "000030.sst": ("sst", None, ""),
        "000031.sst": ("sst", None, ""),
        "CURRENT": ("current", None, ""),
        "MANIFEST-000005": ("manifest", None, ""),
        "OPTIONS-000007": ("options", None, ""),
    }
    files = by_name(read)
    assert [part.holds for part in files["000008.sst"].sections][:2] == ["data", "filter"]
    assert files["000031.sst"].sections == () and read.notes == ()
    # LevelDB has the same log and no column families.
    assert told(LEVELDB.stored_files(folder))["000008.sst"] == ("sst", 0, "")


def test_what_a_manifest_does_not_tell_is_a_note(tmp_path: Path) -> None:
    folder = database(tmp_path / "a", [new_file(8, 3), numbers(104, 1), new_file(9, 4)], [8, 9])
    read = ROCKSDB.stored_files(folder)
    assert told(read)["000008.sst"][1] == 3 and told(read)["000009.sst"][1] is None
    assert "tag 104 is not known" in read.notes[0] and "levels are those up to there" in read.notes[0]
    (folder / "CURRENT").write_text("MANIFEST-000099\n", encoding="ascii")
    read = ROCKSDB.stored_files(folder)
    assert told(read)["000008.sst"][1] is None and "MANIFEST-000099" in read.notes[0]
    (folder / "CURRENT").write_text("", encoding="ascii")
    assert "not the name of a MANIFEST" in ROCKSDB.stored_files(folder).notes[0]
    (folder / "CURRENT").unlink()
    assert "hold no CURRENT" in ROCKSDB.stored_files(folder).notes[0]
    torn = database(tmp_path / "b", [new_file(8, 3)], [8])
    with (torn / "MANIFEST-000005").open("ab") as file:
        file.write(fragment(1, new_file(9, 3))[:-4])
    read = ROCKSDB.stored_files(torn)
    assert told(read)["000008.sst"][1] == 3 and read.notes[0].endswith("is not whole, as while it is written")


def test_files_in_other_folders_are_told_as_far_as_options_tell_them(tmp_path: Path) -> None:
    folder = database(tmp_path / "db", [new_file(8, 3), new_file(9, 4)], [8])
    for place in ("wal", "logs"):
        (tmp_path / place).mkdir()
    (tmp_path / "wal/000011.log").touch()
    log = tmp_path / "logs" / f"{str(folder).replace('/', '_')[1:]}_LOG"
    log.touch()
    stated = f"[DBOptions]\n  wal_dir={tmp_path}/wal\n  db_log_dir={tmp_path}/logs\n"
    (folder / "OPTIONS-000007").write_text(stated, encoding="ascii")
    options = newest_options(folder)
    assert options is not None and options["DBOptions"]["wal_dir"] == f"{tmp_path}/wal"
    read = ROCKSDB.stored_files(folder)
    assert told(read)[f"{tmp_path}/wal/000011.log"] == ("wal", None, "")
    assert told(read)[str(log)] == ("log", None, "")
    # By db_paths, which OPTIONS does not have.
    assert told(read)["000009.sst"] == ("sst", 4, "default")
    assert len(read.notes) == 1 and "1 table files" in read.notes[0] and "db_paths" in read.notes[0]
    assert isinstance(read, DatabaseFiles) and read.databases[""].log is not None
    assert read.databases[""].log.path == log
    # A process in a container has a root of its own.
    through = ROCKSDB.stored_files(Path("/proc/self/root", *folder.parts[1:]))
    assert f"/proc/self/root{tmp_path}/wal/000011.log" in told(through)
    (tmp_path / "wal/000011.log").unlink()
    (tmp_path / "wal").rmdir()
    assert any("which is wal_dir in OPTIONS" in note for note in ROCKSDB.stored_files(folder).notes)
    (folder / "OPTIONS-000008").write_text("no section", encoding="ascii")
    assert any("OPTIONS-000008 cannot be read" in note for note in ROCKSDB.stored_files(folder).notes)


def test_databases_within_a_directory_are_found(tmp_path: Path) -> None:
    database(tmp_path / "#rocksdb", [new_file(8, 3)], [8])
    database(tmp_path / "#rocksdb/snapshot", [new_file(8, 5)], [8])
    (tmp_path / "ibdata1").touch()
    reader = files_reader("myrocks")
    read = reader.stored_files(tmp_path)
    assert isinstance(reader, ServiceFiles)
    assert told(read)["#rocksdb/000008.sst"] == ("sst", 3, "default")
    assert told(read)["#rocksdb/snapshot/000008.sst"] == ("sst", 5, "default")
    assert told(read)["ibdata1"] == ("other", None, "")
    assert told(reader.stored_files_of_window(read, read)) == told(read)
    database(tmp_path / "#rocksdb", [new_file(8, 3), FLUSH + new_file(12, 0)], [12])
    window = reader.stored_files_of_window(read, reader.stored_files(tmp_path))
    assert by_name(window)["#rocksdb/000012.sst"].made_by == "flush" and window.notes == ()


POSTGRESQL = {
    "base/5/16384": "relation", "base/5/16384.1": "relation", "base/5/16384_fsm": "free space map",
    "base/5/16384_vm.1": "visibility map", "base/5/16390_init": "init fork", "base/5/t3_16400": "temporary table",
    "base/pgsql_tmp/pgsql_tmp123.0": "temporary file", "base/5/pg_filenode.map": "catalog map",
    "global/1262": "relation", "global/pg_control": "control", "pg_wal/00000001000000000000002A": "wal",
    "pg_wal/archive_status/00000001000000000000002A.done": "wal history", "pg_xact/0000": "transaction status",
    "pg_multixact/offsets/0000": "transaction status", "pg_tblspc/16399/PG_15_202209061/5/16401": "relation",
    "pg_stat/pgstat.stat": "statistics", "postgresql.conf": "configuration", "postmaster.pid": "other",
}  # fmt: skip


def test_a_path_says_what_a_file_of_postgresql_is(tmp_path: Path) -> None:
    for name in POSTGRESQL:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    reader = files_reader("postgresql")
    read = reader.stored_files(tmp_path)
    assert {file.name: file.kind for file in read.files} == POSTGRESQL
    assert reader.stored_files_of_window(read, read) == read
    assert titled("postgresql", read, "") is read


def test_forks_and_parts_of_a_file_belong_to_its_relation() -> None:
    assert relation_of("base/5/16384") == relation_of("base/5/16384.12") == ("base/5/16384", "")
    assert relation_of("pg_tblspc/9/PG_15_1/5/16384_vm.1") == ("pg_tblspc/9/PG_15_1/5/16384", "vm")
    assert relation_of("global/pg_control") == relation_of("PG_VERSION") == ("", "")


# What psql 15 printed of a database with a strange name, and of one that may not be asked.
NAME = "it's a \\ = db"
LISTED = f"postgres\0{NAME}\0locked\0"
RELATIONS = f"base/5/16384\0{NAME}.public.accounts\0base/5/16387\0{NAME}.public.accounts (toast)\0"
RELATIONS += f"base/5/16390\0{NAME}.public.fast\0global/1262\0pg_catalog.pg_database\0"
PSQL = """
cd "${0%/*}"
script=$(/bin/cat)
printf '%s' "$script" >> asked
case "$script" in
  *locked*) echo 'FATAL: permission denied' >&2; exit 2 ;;
  *connect*) exec /bin/cat relations ;;
  *) exec /bin/cat listed ;;
esac
"""


def test_a_server_says_which_files_are_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("listed", LISTED), ("relations", RELATIONS)):
        (tmp_path / name).write_text(text)
    script(tmp_path / "psql", PSQL)
    monkeypatch.setenv("PATH", str(tmp_path))
    names = ("base/5/16384", "base/5/16384.1", "base/5/16384_vm", "base/5/16387", "base/5/16390_init", "global/1262")
    files = StoredFiles(tuple(StoredFile(name, "relation") for name in (*names, "base/5/99", "PG_VERSION")))
    read = titled("postgresql", files, "host=/run/postgresql")
    accounts = f"{NAME}.public.accounts"
    assert [file.title for file in read.files] == [
        accounts, accounts, f"{accounts} (visibility map)", f"{accounts} (toast)", f"{NAME}.public.fast (init fork)",
        "pg_catalog.pg_database", "", "",
    ]  # fmt: skip
    assert read.notes == ("database locked: its relations have no names: FATAL: permission denied",)
    assert r"\connect -reuse-previous=on 'dbname=''it\\''s a \\\\ = db'''" in (tmp_path / "asked").read_text()
    script(tmp_path / "psql", "echo 'No such file' >&2; exit 2")
    with pytest.raises(MeasurementError, match="psql did not say which databases there are: No such file"):
        titled("postgresql", files, "host=/nowhere")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(HostError, match="psql is not installed"):
        titled("postgresql", files, "host=/nowhere")


def test_only_a_service_that_can_be_asked_has_titles() -> None:
    with pytest.raises(UsageError, match="files of myrocks have no other names"):
        titled("myrocks", StoredFiles(()), "socket=/run/s")
