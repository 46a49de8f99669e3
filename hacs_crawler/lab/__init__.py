"""Evaluations of papers, simulated crawls, page views, other crawlers' policies; no crawl loads them."""
