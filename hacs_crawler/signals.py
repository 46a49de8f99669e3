"""Signals that a crawl sends in addition to Scrapy's; use `crawler.signals.connect`."""

from typing import Final

# A page was visited: `receiver(page, outcome)` gets its URL and the `Outcome` that callbacks find in
# `response.meta["hacs"]`. Sent before the callback or, if items are watched, after it; not sent for
# failed attempts and gone pages.
page_visited: Final = object()
