"""LMDB, through our own client."""
