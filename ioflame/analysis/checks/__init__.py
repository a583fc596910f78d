"""What a finished run can be trusted for: one module a subject."""
