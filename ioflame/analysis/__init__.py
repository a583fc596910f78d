"""What follows from results: figures with their intervals, costs, accounts of time."""
