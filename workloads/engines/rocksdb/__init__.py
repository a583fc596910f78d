"""RocksDB 7 and later, through db_bench."""
