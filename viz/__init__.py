"""What is seen: flame graphs and terminal tables, drawn from a run directory."""
