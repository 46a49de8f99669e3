"""A Scrapy extension that changes constants: the setting CHANGED is JSON of values by dotted path.

It is for limits that only a test reaches, in a crawl that is a process of its own.
"""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

from scrapy.crawler import Crawler


class Changed:
    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Changed:
        for path, value in json.loads(crawler.settings["CHANGED"]).items():
            module, _, name = path.rpartition(".")
            getattr(import_module(module), name)  # raises AttributeError
            setattr(import_module(module), name, value)
        return cls()


def changed(module: str = "crawl", **constants: Any) -> dict[str, str]:
    """Return the settings of a crawl in which constants of a module of `crawl` have other values."""
    values = {f"hacs_crawler.crawl.{module}.{name}": value for name, value in constants.items()}
    return {"EXTENSIONS": json.dumps({"tests.changed.Changed": 1}), "CHANGED": json.dumps(values)}
