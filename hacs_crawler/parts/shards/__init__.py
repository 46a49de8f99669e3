"""Shards: each crawl has the pages of some of the hosts."""
