"""The store: a directory of Parquet files that DuckDB reads, of many runs and many hosts."""
