"""A store in Spark: the same files, tables and views as in DuckDB, for a fleet that one machine is too small for.

Types and columns are those of schema.sql, the views those of views.sql; what Spark calls by another name is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ground.results.store.parquet_files import SCHEMA, held_twice, stored_query

# Of a session: names in double quotes, as in standard SQL; times as they were written.
SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.session.timeZone": "UTC",
}
_TYPES = {
    "VARCHAR": "STRING",
    "INTEGER": "INT",
    "TIMESTAMP": "TIMESTAMP_NTZ",
    "BLOB": "BINARY",
    "BIGINT[]": "ARRAY<BIGINT>",
}
_QUOTE = '"'
_TABLE = re.compile(r"CREATE TABLE (\w+) \((.*?)\);", re.DOTALL)
_MACRO = re.compile(r"CREATE MACRO (\w+)\((.*?)\) AS TABLE")
# What a row of these is known by; rows of the others are joined to the runs that are whole.
_ONCE = {"stacks": ["stack_hi", "stack_lo"], "frames": ["frame"], "runs": ["run"]}
# What merged files replace: a list beside each.
_MERGED, _LISTS = ".parquet", ".replaces.json"


def open_in_spark(spark: Any, store: str) -> None:
    """Makes the tables and views of a store temporary views and functions of a session that has SETTINGS.

    spark: a pyspark.sql.SparkSession; store: its directory, or an address that Spark reads: s3a://bucket/store
    Files are taken for whole: `ioflame store check` says whether they are.
    """
    root = f"{store.rstrip('/')}/v{SCHEMA}"
    lists = _lists(spark, root)
    for table, columns in _TABLE.findall(_plain(stored_query("schema.sql"))):
        pairs = [" ".join(column.split()).rsplit(" ", 1) for column in columns.split(",")]
        schema = ", ".join(f"`{name.strip(_QUOTE)}` {_TYPES.get(kind, kind)}" for name, kind in pairs)
        found = _rows(
            spark, f"{root}/{table}", schema, {path: names for path, names in lists.items() if f"/{table}/day=" in path}
        )
        if table in _ONCE:
            found = found.dropDuplicates(_ONCE[table])
        else:
            found = found.join(spark.table("runs").select("run"), "run", "left_semi")
        found.createOrReplaceTempView(table)
    for statement in _statements(stored_query("dialect.spark.sql")):
        spark.sql(statement)
    for statement in _statements(stored_query("views.sql")):
        spark.sql(_in_spark(statement))


def _files(spark: Any, names: str) -> Any:
    """Reads the files of these names in all directories below one, whose days are no column then."""
    return spark.read.option("recursiveFileLookup", "true").option("pathGlobFilter", names)


def _rows(spark: Any, table: str, schema: str, lists: Mapping[str, Sequence[str]]) -> Any:
    from pyspark.errors import AnalysisException
    from pyspark.sql.functions import lit, split_part

    try:
        found = _files(spark, f"*{_MERGED}").schema(schema).parquet(table)
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return spark.createDataFrame([], schema)
    replaced = {f"{path.rpartition('/')[0]}/{name}" for path, names in lists.items() for name in names}
    file = found["_metadata.file_path"]
    if replaced:
        found = found.where(~file.isin(sorted(replaced)))
    for path, runs in held_twice({path: lists[path] for path in sorted(lists.keys() - replaced)}).items():
        found = found.where((file != path) | ~split_part(found["run"], lit("."), lit(1)).isin(sorted(runs)))
    return found


def _lists(spark: Any, root: str) -> dict[str, list[str]]:
    """Addresses of merged files, and the names of the files that each holds as well, whether or not these are there."""
    merged = {_tail(path) for path in _files(spark, f"merged-*{_MERGED}").format("binaryFile").load(root).inputFiles()}
    found = _files(spark, f"merged-*{_LISTS}").schema("files ARRAY<STRING>").option("multiLine", "true").json(root)
    listed = [
        (path.removesuffix(_LISTS) + _MERGED, names)
        for path, names in found.select("_metadata.file_path", "files").collect()
    ]
    return {path: names for path, names in listed if _tail(path) in merged}


def _tail(path: str) -> str:
    """Table, day and name: before them Spark writes file:/ in one place, file:/// in another."""
    return "/".join(path.rsplit("/", 3)[1:])


def _plain(sql: str) -> str:
    return re.sub(r"--[^\n]*", "", sql)


def _statements(sql: str) -> list[str]:
    """Without comments; a semicolon in quotes ends none."""
    parts = re.findall(r"(?:'[^']*'|[^;'])+", _plain(sql))
    return [part.strip() for part in parts if part.strip()]


def _in_spark(statement: str) -> str:
    macro = _MACRO.match(statement)
    if macro:
        arguments = ", ".join(f"{name.strip()} STRING" for name in macro[2].split(","))
        head = f"CREATE OR REPLACE TEMPORARY FUNCTION {macro[1]}({arguments}) RETURNS TABLE RETURN"
        statement = head + statement[macro.end() :]
    statement = statement.replace("CREATE VIEW", "CREATE OR REPLACE TEMPORARY VIEW", 1)
    return statement.replace("unnest(", "explode(")
