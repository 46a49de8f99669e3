"""The open state as a crawl uses it: pages are read ahead, and visits written behind."""
