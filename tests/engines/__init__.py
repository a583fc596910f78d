"""Engines for tests, found by IOFLAME_ENGINES alone."""
