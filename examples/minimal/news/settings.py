"""One line switches HACS on; all else is Scrapy's own."""

BOT_NAME = "news"
SPIDER_MODULES = ["news.spiders"]
ROBOTSTXT_OBEY = True
CONCURRENT_REQUESTS_PER_DOMAIN = 1
DOWNLOAD_DELAY = 1
USER_AGENT = "my-crawler (+https://www.example.org/crawler)"
FEED_EXPORT_ENCODING = "utf-8"

ADDONS = {"hacs_crawler.addon.HacsAddon": 500}
