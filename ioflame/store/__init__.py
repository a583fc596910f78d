"""The store of many runs: what goes in, what comes out."""
