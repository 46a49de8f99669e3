"""Pages that show their links only in a browser: needs `pip install 'hacs-crawler[playwright]'`."""

BOT_NAME = "quotes"
SPIDER_MODULES = ["quotes.spiders"]
ROBOTSTXT_OBEY = True
DOWNLOAD_DELAY = 1

ADDONS = {"hacs_crawler.addon.HacsAddon": 500}
HACS_RENDER = "auto"  # a browser renders the pages whose plain answers lack their links
