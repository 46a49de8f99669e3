"""Optional features of a crawl: each part stands alone."""
