"""A store in Spark: the same files, tables and views as in DuckDB, for a fleet that one machine is too small for.

Types and columns are those of schema.sql, the views those of views.sql; what Spark calls by another name is replaced.
"""

from __future__ import annotations

import re
from typing import Any

from ioflame.results.store.database import stored_query
from ioflame.results.store.parquet_files import SCHEMA

__all__ = ("SETTINGS", "open_in_spark")

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
# What other rows of a table are known by, and what is joined to the runs that are whole.
_ONCE = {"stacks": "stack_hi, stack_lo", "frames": "frame", "runs": "run"}


def open_in_spark(spark: Any, store: str) -> None:
    """Makes the tables and views of a store temporary views and functions of a session that has SETTINGS.

    spark: a pyspark.sql.SparkSession; store: its directory, or an address that Spark reads: s3a://bucket/store
    Run `ioflame store compact` and `check` before: files of ioflame's own are taken for whole.
    """
    for table, columns in _TABLE.findall(_plain(stored_query("schema.sql"))):
        _table(spark, f"{store.rstrip('/')}/v{SCHEMA}/{table}", table, columns)
    for statement in _statements(stored_query("dialect.spark.sql")):
        spark.sql(statement)
    for statement in _statements(stored_query("views.sql")):
        spark.sql(_in_spark(statement))


def _table(spark: Any, place: str, table: str, columns: str) -> None:
    pairs = [" ".join(column.split()).rsplit(" ", 1) for column in columns.split(",")]
    schema = ", ".join(f"`{name.strip(_QUOTE)}` {_TYPES.get(kind, kind)}" for name, kind in pairs)
    # Below the days, so that `day` is no column.
    path = spark.sparkContext._jvm.org.apache.hadoop.fs.Path(f"{place}/day=*/*.parquet")
    there = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).globStatus(path)
    found = (
        spark.read.schema(schema).parquet(f"{place}/day=*/*.parquet") if there else spark.createDataFrame([], schema)
    )
    if table in _ONCE:
        found = found.dropDuplicates(_ONCE[table].split(", "))
    else:
        found = found.join(spark.table("runs").select("run"), "run", "left_semi")
    found.createOrReplaceTempView(table)


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
