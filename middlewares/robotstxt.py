"""Downloader middleware: Scrapy's own for robots.txt, also obeyed by requests that wait for it together.

In Scrapy 2.19 several requests to a host await one Deferred while its robots.txt is fetched, and the
first of them takes the parser out of it: the others get None, which stands for "no rules". HACS
sends many start requests of one host together, so it asks again if the answer is None.
"""

from inspect import iscoroutinefunction
from typing import Any

from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware

_AWAITS_ONE_DEFERRED = iscoroutinefunction(RobotsTxtMiddleware.robot_parser)


class ObeyedRobotsTxtMiddleware(RobotsTxtMiddleware):
    """Obeys robots.txt from the first request on."""

    if _AWAITS_ONE_DEFERRED:

        async def robot_parser(self, *arguments: Any) -> Any:
            """Return the parser of a host's robots.txt, None if it cannot be had."""
            parser = await super().robot_parser(*arguments)
            # the file has arrived by now: asked again, Scrapy answers immediately, and correctly
            return parser or await super().robot_parser(*arguments)
