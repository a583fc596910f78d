"""Drawings: the flame graph as a file of its own, and the plots of the page."""
