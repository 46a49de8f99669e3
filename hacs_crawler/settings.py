"""Settings of this repository's own production project (`scrapy crawl scholar`).

Polite by default: it obeys robots.txt, and sends each host one request at a time, with pauses that
depend on the host's speed. `-s NAME=VALUE` overrides settings.
"""

from importlib.util import find_spec

BOT_NAME = "hacs-crawler"
ADDONS = {"hacs_crawler.addon.HacsAddon": 500}
HACS_SPIDERS = True
# as in the spider scholar, for commands, which read only these settings
HACS_WATCH = "publications"

USER_AGENT = "hacs-crawler/0.1 (history-aware recrawling of scholarly pages; respects robots.txt)"
ROBOTSTXT_USER_AGENT = "hacs-crawler"
ROBOTSTXT_OBEY = True
CONCURRENT_REQUESTS = 32
CONCURRENT_REQUESTS_PER_DOMAIN = 1
DOWNLOAD_DELAY = 1.0
AUTOTHROTTLE_ENABLED = True
AUTOTHROTTLE_START_DELAY = 1.0
HACS_RETRY_AFTER = True
HACS_SIGNALS = 200
DOWNLOAD_TIMEOUT = 60
DOWNLOAD_MAXSIZE = 32 * 1024 * 1024
# closer to the engine than HttpCompressionMiddleware (590), and before Scrapy decodes a page (580)
DOWNLOADER_MIDDLEWARES = {
    "hacs_crawler.middlewares.scholar.SlowEncodingMiddleware": 585,
    "hacs_crawler.middlewares.scholar.UnknownHosts": 560,  # closer to the network than retries
}

HACS_RENDER = "auto" if find_spec("scrapy_playwright") else "never"
# ms, including delays between a page's requests
PLAYWRIGHT_DEFAULT_NAVIGATION_TIMEOUT = 90_000

TELNETCONSOLE_ENABLED = False
COOKIES_ENABLED = False
LOG_LEVEL = "INFO"
FEED_EXPORT_ENCODING = "utf-8"
