"""Counting instructions under callgrind: which runs, and how they are conducted."""
