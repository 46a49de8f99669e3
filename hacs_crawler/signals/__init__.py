"""Reading what says that pages changed: sitemaps, feeds, robots.txt's sitemaps, a user's own pings."""

from hacs_crawler.signals.feed import announced_feeds, read_feed
from hacs_crawler.signals.listing import Listing, SignalError
from hacs_crawler.signals.pings import read_pings
from hacs_crawler.signals.sitemap import MOST_BYTES, read_sitemap, same_host, sitemaps_of_robots

__all__ = [
    "MOST_BYTES",
    "Listing",
    "SignalError",
    "announced_feeds",
    "read_feed",
    "read_pings",
    "read_sitemap",
    "same_host",
    "sitemaps_of_robots",
]
