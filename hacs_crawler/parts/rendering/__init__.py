"""Pages that only a browser shows whole: which these are, and how they are rendered."""
