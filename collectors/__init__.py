"""What watches from outside: perf, and the counters of the host and the process."""
