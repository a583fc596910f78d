"""A file of blocks, and a client that reads them at random."""
