"""History-aware crawl scheduling for Scrapy."""
