"""Every page of a CrawlSpider is ranked and recorded, and visited again directly."""

BOT_NAME = "books"
SPIDER_MODULES = ["books.spiders"]
ROBOTSTXT_OBEY = True
DOWNLOAD_DELAY = 1

ADDONS = {"hacs_crawler.addon.HacsAddon": 500}
HACS_PAGES = "all"  # not only start requests: what the rules follow, too
HACS_BUDGET = 200  # pages a run: known ones, and a fifth for pages never seen
HACS_REVISIT = "budget"  # begin with the known pages that most likely have new links
