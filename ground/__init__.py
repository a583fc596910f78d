"""What every room stands on: the run directory's types, processes and files, text, errors. Imports none of them."""
