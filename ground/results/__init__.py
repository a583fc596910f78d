"""The run directory: one module a result file. Here the rooms meet; they do not import each other."""
