"""Downloader middleware: reads pages in "punycode" as browsers do, to which that is no encoding.

Python has a decoder of that name, for host names, which takes a minute for a megabyte, and Scrapy
decodes every page to look for a `meta` refresh.
"""

from __future__ import annotations

from scrapy import Request, Spider
from scrapy.http import Response, TextResponse

from hacs_crawler.links import has_slow_encoding

_AS_BROWSERS = "cp1252"


class SlowEncodingMiddleware:
    """Gives such pages the encoding of those that name none."""

    def process_response(
        self, request: Request, response: Response, spider: Spider | None = None
    ) -> Response:
        """Look at the encoding that a page names; nothing is decoded for that."""
        del request, spider
        if isinstance(response, TextResponse) and has_slow_encoding(response.encoding):
            return response.replace(encoding=_AS_BROWSERS)
        return response
