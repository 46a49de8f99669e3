"""A worker of a fleet: all workers have these settings, and the same seeds."""

import os

BOT_NAME = "workers"
ROBOTSTXT_OBEY = True
CONCURRENT_REQUESTS = 32
CONCURRENT_REQUESTS_PER_DOMAIN = 1
DOWNLOAD_DELAY = 1
USER_AGENT = os.environ.get("CRAWLER_USER_AGENT", "my-crawler (+https://www.example.org/crawler)")
TELNETCONSOLE_ENABLED = False

ADDONS = {"hacs_crawler.addon.HacsAddon": 500}
HACS_STATE = os.environ["HACS_STATE"]
HACS_FLEET = "scholar"
HACS_BUDGET = 1_000  # pages a round, all workers together
HACS_ROUND_MINUTES = 60.0
HACS_METRICS = os.environ.get("HACS_METRICS")
HACS_RETRY_AFTER = True
