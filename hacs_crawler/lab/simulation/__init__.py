"""Crawls replayed on known histories, for policies to be compared on."""
