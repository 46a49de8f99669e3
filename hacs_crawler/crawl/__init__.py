"""One running Scrapy crawl: opening, ranking, observing, recording and closing."""
