"""Pages that show their links only in a browser: needs `pip install 'hacs-crawler[playwright]'`."""

BOT_NAME = "quotes"
SPIDER_MODULES = ["quotes.spiders"]
ROBOTSTXT_OBEY = True
CONCURRENT_REQUESTS_PER_DOMAIN = 1
DOWNLOAD_DELAY = 1
USER_AGENT = "my-crawler (+https://www.example.org/crawler)"
FEED_EXPORT_ENCODING = "utf-8"

ADDONS = {"hacs_crawler.addon.HacsAddon": 500}
HACS_RENDER = "auto"  # a browser renders the pages whose plain answers lack their links
