"""The verbs: one module a command. Each parses its arguments, calls what measures, stores or shows, and prints."""
