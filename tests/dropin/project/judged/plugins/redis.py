"""scrapy-redis: its scheduler, and its spider that reads seeds from a list in Redis."""

import json
from typing import Any

from scrapy.core.engine import ExecutionEngine
from scrapy_redis.spiders import RedisSpider

from ..base import Judged, Row, follows, urls

ExecutionEngine._SLOT_HEARTBEAT_INTERVAL = 0.2  # instead of 5 s, which an idle spider waits for


class SharesItsQueue(Row):
    start_urls = urls("/1", "/links?to=/a&to=/b", "/1", "/2")
    parse = follows


class ReadsSeedsFromRedis(Judged, RedisSpider):
    """The seeds are there before it starts: this process puts them there."""

    redis_key = "seeds"
    max_idle_time = 1
    parse = follows

    def setup_redis(self, crawler: Any = None) -> None:
        super().setup_redis(crawler)
        for one in urls("/1", "/links?to=/a&to=/b", "/2"):
            self.server.rpush(self.redis_key, json.dumps({"url": one}))
