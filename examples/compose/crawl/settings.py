"""A crawl that goes on, in a container."""

import os

BOT_NAME = "crawl"
ROBOTSTXT_OBEY = True
CONCURRENT_REQUESTS = 32
CONCURRENT_REQUESTS_PER_DOMAIN = 1
DOWNLOAD_DELAY = 1
USER_AGENT = os.environ.get("CRAWLER_USER_AGENT", "my-crawler (+https://www.example.org/crawler)")
FEED_EXPORT_ENCODING = "utf-8"
TELNETCONSOLE_ENABLED = False

ADDONS = {"hacs_crawler.addon.HacsAddon": 500}
HACS_SPIDERS = True
HACS_STATE = os.environ["HACS_STATE"]
HACS_BUDGET = 1_000  # pages a round
HACS_METRICS = os.environ.get("HACS_METRICS")
HACS_RETRY_AFTER = True
