"""Four spiders, and what is news to each: it says so in its `custom_settings`."""

BOT_NAME = "watching"
SPIDER_MODULES = ["watching.spiders"]
ROBOTSTXT_OBEY = True
DOWNLOAD_DELAY = 1

ADDONS = {"hacs_crawler.addon.HacsAddon": 500}
