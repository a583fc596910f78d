"""The verbs: one module a command. Each parses its arguments, calls `ioflame.measure`, `present` or `store`, and prints."""
