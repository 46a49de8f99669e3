"""Crawls simulated on known histories, to compare policies."""
