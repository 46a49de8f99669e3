"""A spider for `scrapy runspider`."""

import os
from typing import Any

import scrapy


class Alone(scrapy.Spider):
    name = "alone"
    start_urls = [f"{os.environ['SITE']}/links?to=/{number}" for number in range(5)]

    def parse(self, response: Any) -> Any:
        yield {"url": response.url}
        yield from response.follow_all(css="a")
