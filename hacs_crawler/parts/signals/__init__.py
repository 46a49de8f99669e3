"""Signals that pages changed: what hosts' sitemaps and feeds say, and a user's own pings."""
