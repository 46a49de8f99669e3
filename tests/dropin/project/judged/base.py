"""What judged spiders are made of: a spider is a row of the table, named after its class."""

import os
import re
from collections.abc import Iterator
from typing import Any, ClassVar

from scrapy import Request, Spider, signals
from scrapy.http import Response
from twisted.python.failure import Failure

SITE = os.environ.get("SITE", "http://127.0.0.1:1")
FIVE = ("/1", "/2", "/3", "/4", "/5")
TIMED = ("cache_timestamp", "download_latency")
SEEN = ("url", "method", "priority", "dont_filter", "cookies", "cb_kwargs", "flags")


def url(path: str, host: int = 1) -> str:
    return SITE.replace("127.0.0.1", f"127.0.0.{host}") + path


def urls(*paths: str) -> list[str]:
    return [url(path) for path in paths]


def facts(response: Response) -> dict[str, Any]:
    """What a callback may see of a response and its request."""
    request = response.request
    assert request is not None
    meta = {name: value for name, value in response.meta.items() if name not in TIMED}
    return {
        "url": response.url,
        "status": response.status,
        "flags": list(response.flags),
        "request": {name: getattr(request, name) for name in SEEN},
        "meta": {
            name: value for name, value in meta.items() if not name.startswith(("hacs", "_hacs"))
        },
    }


def follows(self: Any, response: Response) -> Iterator[Any]:
    """A callback that tells of its response and follows its links."""
    yield facts(response)
    yield from response.follow_all(css="a", errback=self.failed)


class Judged:
    """Mixed into a spider, makes it a row."""

    runs: ClassVar[tuple[tuple[str, ...], ...]] = ((),)
    """The arguments of each `scrapy crawl`; they share the folder, and so the state."""
    in_order: ClassVar[bool] = False
    """Whether the requests have to come in the same order too."""
    is_endless: ClassVar[bool] = False
    """Whether the number of requests depends on how fast the machine is."""
    adds_up: ClassVar[bool] = False
    """Whether only all runs together do the same: where one is paused differs."""
    is_alone: ClassVar[bool] = False
    """Whether it needs a process of its own: else spiders of a module run in one."""
    since: ClassVar[tuple[int, int]] = (2, 13)
    """With which Scrapy it makes sense."""
    visits: ClassVar[int | None] = None
    """How many visits the add-on is to record in each run, and no failure."""
    warnings_of_ours: ClassVar[int] = 0
    """How many warnings the add-on logs in each run, as on answers that cannot show what is watched."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.name = re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> Any:
        """Make a spider whose methods named after signals are called by these."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        for name in sorted({*vars(signals)} & {*dir(cls)} - {*dir(object)}):
            crawler.signals.connect(getattr(spider, name), getattr(signals, name))
        return spider

    def parse(self, response: Response, **kwargs: Any) -> Any:
        yield facts(response)

    def failed(self, failure: Failure) -> Iterator[Any]:
        yield {"failed": failure.request.url, "why": type(failure.value).__name__}

    def page(self, path: str, host: int = 1, **kwargs: Any) -> Request:
        kwargs.setdefault("callback", self.parse)
        return Request(url(path, host), errback=self.failed, **kwargs)


class Row(Judged, Spider):
    """A spider with an errback on each start request."""

    async def start(self) -> Any:
        for one in self.start_urls:
            yield Request(one, errback=self.failed)


def rows(module: dict[str, Any], *bases: type, **named: dict[str, Any]) -> None:
    """Make rows that differ from the bases in a few attributes only."""
    for name, attributes in named.items():
        module[name] = type(name, bases, {"__module__": module["__name__"], **attributes})


def through(middleware: type, order: int, kind: str = "SPIDER", **more: Any) -> dict[str, Any]:
    """The attributes of a row of five pages that go through a middleware."""
    settings = {f"{kind}_MIDDLEWARES": {middleware: order}}
    return {"start_urls": urls(*FIVE), "custom_settings": settings, **more}
