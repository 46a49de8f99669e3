"""Crawlers that share one plan: a page is visited by one of them, a host by one at a time."""
