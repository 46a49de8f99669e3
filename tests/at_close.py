"""A part that gives the server of a crawl's state commands, once nothing is left but to close.

The setting COMMANDS is JSON of a moment, and a list of commands: "writing", before the visits that wait
are written, or "learning", when they are.
"""

import json
from contextlib import suppress
from typing import Any, Self

import redis
from scrapy import signals

from hacs_crawler.crawl.part import Part


class AtClose(Part):
    def __init__(self, state: str, moment: str, commands: list[list[str]]) -> None:
        self._state, self._moment, self._commands = state, moment, commands

    @classmethod
    def from_crawl(cls, crawl: Any) -> Self:
        part = cls(crawl.config.state, *json.loads(crawl.crawler.settings["COMMANDS"]))
        crawl.crawler.signals.connect(part.idle, signals.spider_idle)
        return part

    def idle(self) -> None:
        self._give("writing")

    async def closing(self) -> None:
        self._give("learning")

    def _give(self, moment: str) -> None:
        commands, self._commands = self._commands, []
        if moment != self._moment:
            self._commands = commands
            return
        with redis.Redis.from_url(self._state) as client:
            for command in commands:
                with suppress(redis.ConnectionError):
                    client.execute_command(*command)


def at_close(moment: str, *commands: list[str]) -> dict[str, object]:
    """Return the settings of a crawl at whose close that is done."""
    return {
        "HACS_PARTS": json.dumps({"tests.at_close.AtClose": 1}),
        "COMMANDS": json.dumps([moment, commands]),
    }
