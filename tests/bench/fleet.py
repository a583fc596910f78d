"""A day of a fleet in one store: 1,000 hosts, a profile an hour of 2,000 stacks each; five questions and a release.

Half of the hosts run the new version. Written as hourly merged files would be, then merged into one file a table; asked
in 4 GiB.
"""

from __future__ import annotations

import resource
import sys
import tempfile
from pathlib import Path

import duckdb

from ground.results.store.database import Store
from ground.results.store.parquet_files import footer_words, stored_query, write_replaced
from ioflame.store.history import watch_release
from tests.bench.common import options_of, took
from tests.bench.store import answered, questions

HOSTS, HOURS, STACKS, POOL, FRAMES = 1_000, 24, 2_000, 30_000, 4_000
ASK_S, MEMORY = 10.0, 4 << 30
DAY = "2026-11-20"
# Rows of an hour by table, of the host `h` and the run `run`; versions 9.0 and 9.9, as the questions name them.
_RUNS = "(SELECT h, format('d{{:02}}-h{{:05}}', {hour}, h) AS run FROM range({hosts}) t(h))"
TABLES = {
    "runs": """
        SELECT run, '' AS campaign, false AS twin, TIMESTAMP '{day}' + INTERVAL {hour} HOUR AS created,
            'serving' AS test, CASE WHEN h % 2 = 0 THEN '9.0' ELSE '9.9' END AS label, format('h{{:05}}', h) AS host,
            0.01 AS probability
        FROM {runs}""",
    "hosts": """
        SELECT run, format('h{{:05}}', h) AS host, '{{"cpu": "' || (h // 2) % 4 || '", "kernel": "6.1"}}' AS facts
        FROM {runs}""",
    "figures": """
        SELECT run, metric, CASE metric WHEN 'qps' THEN 1e5 ELSE 20 END * (0.97 + 0.06 * random()) AS value
        FROM {runs} CROSS JOIN (VALUES ('qps'), ('cpuPer')) m(metric)""",
    "windows": """
        SELECT run, w AS "window", 'plain' AS kind, w * 1000000000 AS start_ns, (w + 1) * 1000000000 AS end_ns,
            1e5 * (0.9 + 0.2 * random()) AS queries, 1000000000 AS cpu_ns, '' AS dropped
        FROM {runs} CROSS JOIN range(12) t(w)""",
    "categories": """
        SELECT run, 'cpu-clock' AS event, NULL AS second, 'owner' AS "view", 'c' || c AS category,
            1 + (random() * 1e8)::BIGINT AS weight, 5 AS samples
        FROM {runs} CROSS JOIN range(20) t(c)""",
    "samples": """
        SELECT run, 1 AS "window", (random() * 10)::INT AS second, 'cpu-clock' AS event, 'ns' AS unit, 'db' AS pool,
            '' AS state, '' AS labels, hash(s)::UBIGINT >> 1 AS stack_hi, s AS stack_lo,
            1000000 * (1 + (random() * 99)::BIGINT) AS weight, 1 AS samples
        FROM (SELECT run, (random() * random() * {pool})::BIGINT % {pool} AS s
              FROM {runs} CROSS JOIN range({stacks}) t(i))
        ORDER BY stack_hi, stack_lo, second""",
}
DICTIONARIES = {
    "stacks": """
        SELECT hash(s)::UBIGINT >> 1 AS stack_hi, s AS stack_lo,
            [hash(s // 100, i)::UBIGINT % {frames} FOR i IN range(10 + s % 30)] AS frames
        FROM range({pool}) t(s)""",
    "frames": """
        SELECT f AS frame, 'ns::f' || f AS name, 'ns::f' || f AS canonical, 'librocksdb.so.9' AS object,
            false AS kernel, false AS inlined
        FROM range({frames}) t(f)""",
}


def write(store: Path, hosts: int) -> None:
    made = duckdb.connect(config={"memory_limit": f"{MEMORY}B", "temp_directory": str(store / "spill")})
    made.execute(stored_query("schema.sql"))

    def put(table: str, select: str, name: str) -> None:
        path = store / "v1" / table / f"day={DAY}" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        made.execute(
            f"CREATE OR REPLACE TEMP TABLE rows AS FROM {table} WHERE false; INSERT INTO rows BY NAME {select}"
        )
        says = f"KV_METADATA {{ioflame_store: '{footer_words(table)}'}}"
        made.execute(f"COPY (FROM rows) TO '{path}' (FORMAT parquet, COMPRESSION zstd, {says})")

    for table, select in DICTIONARIES.items():
        put(table, select.format(pool=POOL, frames=FRAMES), "all")
    for hour in range(HOURS):
        runs = _RUNS.format(hour=hour, hosts=hosts)
        for table, select in TABLES.items():
            words = select.format(runs=runs, day=DAY, hour=hour, pool=POOL, stacks=STACKS)
            # As of the files of that hour, which are gone.
            merged = store / "v1" / table / f"day={DAY}" / f"merged-{hour:02}.parquet"
            merged.parent.mkdir(parents=True, exist_ok=True)
            write_replaced(merged, [merged.with_name(f"hour-{hour:02}.parquet")], [])
            put(table, words, merged.stem)


def main() -> int:
    hosts, missed = options_of(__doc__, hosts=HOSTS).hosts, 0
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        wall, cpu = took(lambda: write(Path(place), hosts))
        store = Store(Path(place), memory=MEMORY)
        print(f"{hosts:,} hosts x {HOURS} profiles of {STACKS:,} stacks, made in {wall:.0f} s ({cpu:.0f} s of CPU)")
        for state in ("as added, a file an hour", "merged"):
            if state == "merged":
                wall, cpu = took(store.compact)
                print(f"  compact: {wall:.0f} s ({cpu:.0f} s of CPU)")
            size = sum(path.stat().st_size for path in Path(place).rglob("*.parquet"))
            rows = store.query("SELECT count(*) FROM samples").rows[0][0]
            if rows != hosts * HOURS * STACKS:
                sys.exit(f"{rows:,} rows of samples are read, {hosts * HOURS * STACKS:,} were written")
            print(f"  {state}: {rows:,} rows of samples, {size / 1e6:,.0f} MB")
            released = {
                "a release over its hosts": lambda: watch_release(Store(Path(place), memory=MEMORY), "9.0", "9.9")
            }
            missed += answered({**questions(store, "ns::f77"), **released}, ASK_S)
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"  largest memory: {largest / 1024:,.0f} MiB (goal {MEMORY >> 20:,} MiB)")
    return int(missed > 0 or largest > MEMORY >> 10)


if __name__ == "__main__":
    sys.exit(main())
