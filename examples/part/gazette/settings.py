BOT_NAME = "gazette"
SPIDER_MODULES = ["gazette.spiders"]
ROBOTSTXT_OBEY = True
DOWNLOAD_DELAY = 1.0

ADDONS = {"hacs_crawler.addon.HacsAddon": 500}
HACS_PARTS = {"gazette.parts.UpdatesFile": 500}
UPDATES_FILE = "updates.jsonl"
