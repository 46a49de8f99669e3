"""One running Scrapy crawl: what it ranks, observes and records, and when it opens and closes."""
