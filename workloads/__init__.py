"""What runs: engines, steps, scales and the databases they read."""
