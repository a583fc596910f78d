"""How ioflame speaks: units, columns, progress and the terminal. Imports nothing of the house but its errors."""
