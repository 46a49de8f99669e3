"""What no crawl loads: evaluations of papers, simulated crawls, page views, other crawlers' policies."""
