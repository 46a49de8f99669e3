"""Downloader middleware: Scrapy's own for robots.txt, obeyed by requests that wait for it together, too.

In Scrapy 2.19 several requests to a host await one Deferred while its robots.txt is fetched, and the
first of them takes the parser out of it: the others get None, which means that there are no rules. HACS
sends many start requests of one host at once, so it asks again where the answer is None.
"""

from __future__ import annotations

from inspect import iscoroutinefunction
from typing import Any

from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware

_AWAITS_ONE_DEFERRED = iscoroutinefunction(RobotsTxtMiddleware.robot_parser)


class ObeyedRobotsTxtMiddleware(RobotsTxtMiddleware):
    """Obeys robots.txt from the first request on."""

    if _AWAITS_ONE_DEFERRED:

        async def robot_parser(self, *arguments: Any) -> Any:
            """Return the parser of a host's robots.txt, None if there is none to be had."""
            parser = await super().robot_parser(*arguments)
            # what was awaited is known by now: asked again, Scrapy answers at once, and right
            return parser or await super().robot_parser(*arguments)
