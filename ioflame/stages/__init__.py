"""What follows from what was recorded: each stage reads the run directory and writes its own file."""
