"""The report page: its sections, and the templates that they fill."""
