"""Shards: one crawl has the pages of some hosts, and others those of the rest."""
