"""Page views from files: access logs and tables, and what they tell of pages and sites."""
