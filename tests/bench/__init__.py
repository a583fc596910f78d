"""Benchmarks: programs to run by hand (make bench), not tests."""
