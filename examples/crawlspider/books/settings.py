"""Every page of a CrawlSpider is ranked and recorded, and visited again directly."""

BOT_NAME = "books"
SPIDER_MODULES = ["books.spiders"]
ROBOTSTXT_OBEY = True
CONCURRENT_REQUESTS_PER_DOMAIN = 1
DOWNLOAD_DELAY = 1
USER_AGENT = "my-crawler (+https://www.example.org/crawler)"
FEED_EXPORT_ENCODING = "utf-8"

ADDONS = {"hacs_crawler.addon.HacsAddon": 500}
HACS_PAGES = "all"  # not only start requests: what the rules follow, too
HACS_BUDGET = 200  # pages a run: known ones, and a fifth for pages never seen
HACS_REVISIT = "budget"  # begin with the known pages that most likely have new links
