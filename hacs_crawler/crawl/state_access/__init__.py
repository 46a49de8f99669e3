"""A crawl's access to the state: pages are read ahead, and visits written behind."""
