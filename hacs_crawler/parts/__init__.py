"""What a crawl may have beside its kernel: each part stands alone."""
