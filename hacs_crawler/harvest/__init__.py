"""Harvests, during a crawl, the captures that a live web archive has of each page."""
