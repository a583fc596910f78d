"""A profile of processes that somebody else runs."""
