"""One line switches HACS on; all else is Scrapy's own."""

BOT_NAME = "news"
SPIDER_MODULES = ["news.spiders"]
ROBOTSTXT_OBEY = True
DOWNLOAD_DELAY = 1

ADDONS = {"hacs_crawler.addon.HacsAddon": 500}
