"""ioflame: where does the CPU of one RocksDB read go, and what does it cost in microseconds?"""

__version__ = "0.1.0"
