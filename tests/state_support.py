"""Pages and visits for tests of the state."""

from __future__ import annotations

from typing import Any

from hacs_crawler.state.merging import merge
from hacs_crawler.state.page import Page, Visit
from hacs_crawler.utils.times import DAY

URL = "http://example.edu/~a/"


def visit(url: str, day: int, *links: int) -> Visit:
    return Visit(url, day * DAY, marks=frozenset(links))


def page_after(*visits: Visit, **facts: Any) -> Page:
    page = Page(URL, **facts)
    for one in visits:
        merge(page, one)
    return page
