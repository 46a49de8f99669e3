"""Page views from access logs and tables, and people's interest in pages and sites, by these views."""
