"""Signals that a crawl sends in addition to Scrapy's; use `crawler.signals.connect`."""

from typing import Final

# A page was visited, and what that brought is known: `receiver(page, outcome)`.
#
# `page` is the page's URL, `outcome` the `Outcome` that callbacks find in `response.meta["hacs"]`.
# It is sent before the callback; if items are watched, once that has yielded them. What failed, or
# is gone, was not visited.
page_visited: Final = object()
