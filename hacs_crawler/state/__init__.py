"""What is known of each page, kept in SQLite or Redis."""
