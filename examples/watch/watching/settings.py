"""Four spiders, and what is news to each: it says so in its `custom_settings`."""

BOT_NAME = "watching"
SPIDER_MODULES = ["watching.spiders"]
ROBOTSTXT_OBEY = True
CONCURRENT_REQUESTS_PER_DOMAIN = 1
DOWNLOAD_DELAY = 1
USER_AGENT = "my-crawler (+https://www.example.org/crawler)"
FEED_EXPORT_ENCODING = "utf-8"

ADDONS = {"hacs_crawler.addon.HacsAddon": 500}
