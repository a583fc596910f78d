"""What a run directory holds: one module a result file, its form and how it is read."""
