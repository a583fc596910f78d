"""What all packages import: the run directory's types, processes and files, text, errors. Imports none of them."""
