"""The pages that a sitemap names: of all of them, the likeliest to have new links are visited."""

BOT_NAME = "pages"
SPIDER_MODULES = ["pages.spiders"]
ROBOTSTXT_OBEY = True
CONCURRENT_REQUESTS_PER_DOMAIN = 1
DOWNLOAD_DELAY = 1
USER_AGENT = "my-crawler (+https://www.example.org/crawler)"
FEED_EXPORT_ENCODING = "utf-8"

ADDONS = {"hacs_crawler.addon.HacsAddon": 500}
HACS_PAGES = "all"  # a sitemap is a list and no page; what it names are pages
HACS_BUDGET = 100
