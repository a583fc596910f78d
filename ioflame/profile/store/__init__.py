"""What is put into the store, and taken out of it: runs, comparisons, experiments, others' profiles."""
