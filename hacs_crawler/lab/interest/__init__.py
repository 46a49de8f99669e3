"""Page views from files: access logs and tables, and the interest that they show in pages and sites."""
