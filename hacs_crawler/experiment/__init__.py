"""Live experiments: which arm a page belongs to, and what can be concluded from what the arms found."""
