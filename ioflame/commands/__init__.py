"""The verbs: one module a command. Each parses its arguments, calls `ioflame.profile` and prints."""
