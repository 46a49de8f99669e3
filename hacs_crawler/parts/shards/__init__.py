"""Shards: each crawl visits the pages of some of the hosts."""
