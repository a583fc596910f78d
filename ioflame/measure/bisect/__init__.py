"""Which commit made it slower: built, measured beside the ends, and searched for by what each measurement tells."""
