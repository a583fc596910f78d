"""An experiment of cells: from its file to a job, and its steps, cell by cell."""
