"""Tables and text for a terminal: pure functions from results to text."""
