"""Harvests the captures of pages from live web archives, in a crawl."""
