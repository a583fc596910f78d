"""LevelDB, through our own client."""
