"""Asks a live web archive, during a crawl, for what it has of each page."""
