"""A command line of the user's, started as it is and watched while it runs."""
