"""A command line of the user's, started and watched while it runs."""
