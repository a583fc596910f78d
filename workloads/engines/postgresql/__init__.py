"""PostgreSQL, as what others run and `ioflame attach` looks at."""
