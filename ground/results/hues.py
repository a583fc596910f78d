"""One colour of a category in every drawing. Names of engines' categories may be in this layer, and in no room."""

from __future__ import annotations

# Categories of one view differ, so far as it has no more than there are hues (tests/viz/test_palette.py). The first
# eight hues differ most for every eye, the others are the same ones dimmed.
_BY_HUE = (
    ("libc+k", "compression", "fault:tree", "background"),
    ("checksm", "checksum", "fault:write", "storage read"),
    ("IBI:Sk", "filter", "decomp", "fault:client", "storage write"),
    ("DBI:Sk", "write files", "IBI+DBI:Sk", "commit", "locks"),
    ("LRU", "read files", "page search", "buffers"),
    ("bloom", "memtable read", "node search", "index"),
    ("BSI", "block building", "table cache", "next/prev", "heap"),
    ("File", "merge", "txn", "catalogue"),
    ("fault", "install", "update", "planner"),
    ("flush", "client", "parser"),
    ("compaction", "tables", "executor"),
    ("WAL", "optimizer"),
    ("memtable insert", "stall", "server", "transaction"),
    ("write path", "protocol"),
    ("application", "handler", "command loop"),
    ("network", "memtable"),
)

# Which of the 16 hues of the palette a category of our rules has, whatever is drawn beside it.
HUES = {name: hue for hue, names in enumerate(_BY_HUE) for name in names}
