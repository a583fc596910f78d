"""The verbs of the command line: each wires the rooms together and holds no measurement of its own."""
