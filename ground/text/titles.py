"""What people read for names that records keep: by those, runs of all versions are compared."""

_TITLES = {
    # categories: of the tables that Small Datum published ("IO efficiency in RocksDB"), and ours beside them
    "libc+k": "read syscall",
    "checksm": "checksum",
    "IBI:Sk": "index seek",
    "DBI:Sk": "data seek",
    "IBI+DBI:Sk": "index and data seek",
    "BSI": "index lookup",
    "LRU": "block cache",
    "bloom": "bloom filter",
    "File": "file lookup",
    "fault": "page fault",
    "decomp": "decompression",
    "fault:tree": "page fault: tree",
    "fault:write": "page fault: write",
    "fault:client": "page fault: client",
    "txn": "transaction",
    "malloc: ?": "malloc: unknown caller",
    "k:sched": "kernel: scheduler",
    "k:device": "kernel: driver",
    "k:iommu/dma": "kernel: DMA mapping",
    "k:gup": "kernel: page pinning",
    "k:block": "kernel: block layer",
    "k:fs": "kernel: file system",
    "k:net": "kernel: network",
    "k:memory": "kernel: memory",
    "k:io_uring": "kernel: io_uring",
    "k:syscall": "kernel: syscall",
    "k:thread": "kernel: threads",
    # figures
    "rx.lat": "latency",
    "io.lat": "disk latency",
    "cpuPer": "CPU/op",
    "usPer": "user CPU/op",
    "syPer": "system CPU/op",
    "bgPer": "background CPU/op",
    "cpuPerRead": "CPU/read",
    "csPer": "switches/op",
    "readsPerQuery": "reads/op",
    "reqsz": "read size",
    # kinds of a window
    "plain": "baseline",
    "null": "empty",
    # states of a thread, a stage of a read, a part of a slow query: one wait
    "woken": "run-queue wait",
    "preempted": "run-queue wait, preempted",
    "run queue": "run-queue wait",
    "runq": "run-queue wait",
    # why a block of a comparison is measured again
    "foreign reads": "others' reads",
    # of a comparison: the second process of the base; how arms take turns
    "twin": "A/A control",
    "frozen": "all but one arm SIGSTOPped",
}


def title_of(name: str) -> str:
    return _TITLES.get(name, name)


def with_name(name: str) -> str:
    """The title, with the name that is published: once on a screen."""
    return name if title_of(name) == name else f"{title_of(name)} ({name})"
