"""Files, progress, arrays and times: what any folder may need."""
