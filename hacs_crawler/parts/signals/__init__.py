"""Signals that pages have changed: from hosts' sitemaps and feeds, and from users."""
