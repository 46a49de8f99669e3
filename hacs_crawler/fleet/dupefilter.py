"""scrapy-redis's duplicate filter, which loses no request while its server is away."""

from __future__ import annotations

import redis
from scrapy import Request
from scrapy_redis.dupefilter import RFPDupeFilter

from hacs_crawler.state.redis_connection import may_pass
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)


class SharedDupeFilter(RFPDupeFilter):  # type: ignore[misc]  # scrapy-redis has no types
    """Takes no request for a duplicate while the server cannot be asked: rather twice than never."""

    _is_away = False

    def clear(self) -> None:
        """Forget the requests of the round before; where Redis is away some are then left out once."""
        try:
            super().clear()
        except (
            redis.exceptions.RedisError,
            redis.exceptions.RedisClusterException,
            OSError,
        ) as error:
            if not may_pass(error):
                raise
            logger.warning("The filter of duplicates could not be emptied: %s", error)

    def request_seen(self, request: Request) -> bool:
        """Return whether any crawl of the fleet has had such a request."""
        try:
            is_seen = bool(super().request_seen(request))
        except (
            redis.exceptions.RedisError,
            redis.exceptions.RedisClusterException,
            OSError,
        ) as error:
            if not may_pass(error):
                raise
            if not self._is_away:
                logger.warning("Duplicates are not filtered while Redis cannot be asked: %s", error)
            self._is_away = True
            return False
        self._is_away = False
        return is_seen
