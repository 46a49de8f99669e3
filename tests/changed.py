"""A Scrapy extension that changes constants: the setting CHANGED is JSON of values by dotted path.

It is for limits that only a test reaches, in a crawl that is a process of its own.
"""

import json
from importlib import import_module
from typing import Any, Self

from scrapy.crawler import Crawler


class Changed:
    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        for path, value in json.loads(crawler.settings["CHANGED"]).items():
            module, _, name = path.rpartition(".")
            getattr(import_module(module), name)  # raises AttributeError
            setattr(import_module(module), name, value)
        return cls()


def changed(**constants: object) -> dict[str, Any]:
    """Settings of a crawl in which constants, by dotted path with __ for dots, have other values."""
    values = {f"hacs_crawler.{name.replace('__', '.')}": value for name, value in constants.items()}
    return {"EXTENSIONS": json.dumps({"tests.changed.Changed": 1}), "CHANGED": json.dumps(values)}
