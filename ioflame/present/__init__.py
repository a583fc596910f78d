"""What a person sees of a run directory: parts, tables, pages. Nothing is measured."""
