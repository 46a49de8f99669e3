"""Runs foreign spiders, each crawl in a process of its own, and notes what can be seen of it.

    python -m foreign.crawl COLLECTION FOLDER JOBS RESULTS

JOBS and RESULTS are files of lines of JSON: what `Job` and `Seen` say. The processes are forks of this
one, which has imported the project's spiders.
"""

import gc
import inspect
import json
import logging
import os
import random
import re
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, Final

from scrapy import Request, Spider, crawler as crawlers, signals
from scrapy.core.scheduler import Scheduler
from scrapy.core.scraper import Scraper
from scrapy.crawler import Crawler, CrawlerProcess
from scrapy.http import Response
from scrapy.settings import Settings
from scrapy.utils.spider import iter_spider_classes
from twisted.python.failure import Failure

import forks
from foreign.collections import COLLECTIONS, Collection
from foreign.web import Web

FEWEST_STARTS: Final = 20
MOST_STARTS: Final = 60
MOST_REQUESTS: Final = 600
MOST_SECONDS: Final = 600
ROUNDS: Final = 3
AT_ONCE: Final = 2
MODES: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "plain again": {},
    "plain reversed": {},
    "plain as add-on": {"SCHEDULER": "foreign.crawl.HoldsStart"},
    "plain as all": {"SCHEDULER": "foreign.crawl.HoldsStart"},
    "plain one by one": {"CONCURRENT_REQUESTS": 1},
    "add-on": {"ADDONS": {"hacs_crawler.addon.HacsAddon": 500}},
    "all": {"ADDONS": {"hacs_crawler.addon.HacsAddon": 500}, "HACS_PAGES": "all"},
}
REACTORS: Final[dict[str, dict[str, Any]]] = {
    "asyncio": {},
    "epoll": {"TWISTED_REACTOR": "twisted.internet.epollreactor.EPollReactor"},
    "none": {"TWISTED_REACTOR_ENABLED": False},
}
SETTINGS: Final[dict[str, Any]] = {
    "DOWNLOAD_HANDLERS": dict.fromkeys(("http", "https"), "foreign.crawl.Offline"),
    "SPIDER_MIDDLEWARES": {"foreign.crawl.Watch": 1000},
    "DOWNLOAD_DELAY": 0,
    "AUTOTHROTTLE_ENABLED": False,
    "RETRY_PRIORITY_ADJUST": 0,
    "SPIDER_MODULES": [],
    "TELNETCONSOLE_ENABLED": False,
    "LOGSTATS_INTERVAL": 0,
    "CONCURRENT_ITEMS": 1,  # Scrapy makes as many tasks for each answer
    "HTTPCACHE_ENABLED": False,
    "FEEDS": {},
    "LOG_LEVEL": "WARNING",
    "HACS_CLOCK": "foreign.crawl.clock",
}
_CALL_SPIDER: Final = Scraper.call_spider_async
_ADDRESS = re.compile(r"0x[0-9a-f]+")


Spiders = dict[str, type[Spider]]


@dataclass
class Job:
    """One spider, all of whose rounds are run in one folder."""

    spider: str
    mode: str
    reactor: str = "asyncio"
    orders: list[list[str]] = field(default_factory=list)
    """The requests of each round of another crawl, in whose order this one is to begin."""


@dataclass
class Seen:
    """What one crawl did, as far as its project can tell. Lists are in the order of time."""

    job: Job
    round: int
    requests: list[str] = field(default_factory=list)
    headers: list[str] = field(default_factory=list)
    """Those of the requests, but for the two that depend on which page came first."""
    referers: list[str] = field(default_factory=list)
    cookies: list[str] = field(default_factory=list)
    """Those of requests that follow an answer, be it a redirect: the first ones depend on the order."""
    callbacks: list[str] = field(default_factory=list)
    errbacks: list[str] = field(default_factory=list)
    yielded: list[str] = field(default_factory=list)
    """Items as callbacks yielded them."""
    items: list[str] = field(default_factory=list)
    """Items as pipelines left them."""
    dropped: int = 0
    logged: list[str] = field(default_factory=list)
    reason: str = "none"


class Now:
    """What this process, a fork, is at."""

    seen: Seen
    web: Web
    has_started = False


class HoldsStart(Scheduler):
    """Sends nothing before `start()` is over, like the add-on: the first answers come later then."""

    def next_request(self) -> Request | None:
        return super().next_request() if Now.has_started else None


def clock() -> float:
    return 1_700_000_000.0 + Now.seen.round * 4 * 86_400.0


class Offline:
    """A download handler that asks the made web."""

    lazy = False

    async def download_request(self, request: Request, *more: Any) -> Response:
        Now.seen.requests.append(_text(request))
        note_headers(request)
        if len(Now.seen.requests) > MOST_REQUESTS:
            raise OSError("too many requests")
        return Now.web.answer(request)

    async def close(self) -> None:
        pass


def note_headers(request: Request) -> None:
    for name, values in request.headers.items():
        said = f"{request.method} {request.url} {name.decode()}: {b', '.join(values)!r}"
        if name == b"Referer":
            Now.seen.referers.append(said)
        elif name != b"Cookie":
            Now.seen.headers.append(said)
        elif request.meta.get("depth") or "redirect_urls" in request.meta:
            Now.seen.cookies.append(said)


class Watch:
    """The spider middleware next to the spider: bounds what it begins with, and notes its callbacks."""

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        first = []
        async for entry in start:
            first.append(entry)
            if len(first) == MOST_STARTS:
                break
        pages = [one for one in first if isinstance(one, Request) and one.method == "GET"]
        for number in range(FEWEST_STARTS - len(first) if pages else 0):
            page = pages[number % len(pages)]
            sign = "&" if "?" in page.url else "?"
            first.append(page.replace(url=f"{page.url}{sign}again={number}"))
        if Now.seen.job.mode == "plain reversed":
            first.reverse()
        if Now.seen.job.orders and all(isinstance(one, Request) for one in first):
            order = Now.seen.job.orders[Now.seen.round]
            places = {text: number for number, text in reversed([*enumerate(order)])}
            first.sort(key=lambda one: places.get(_text(one), 0))
        for entry in first:
            yield entry
        Now.has_started = True

    def process_spider_input(self, response: Response) -> None:
        request = response.request
        name = getattr(request.callback, "__name__", "parse") if request else ""
        Now.seen.callbacks.append(f"{name} {response.status} {response.url}")

    def process_spider_output(self, response: Response, result: Iterable[Any]) -> Iterable[Any]:
        return map(_noted, result)

    async def process_spider_output_async(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        async for entry in result:
            yield _noted(entry)


async def _call_spider(scraper: Scraper, result: Any, request: Request) -> Any:
    """What Scrapy calls callbacks and errbacks by: no middleware sees errbacks."""
    if isinstance(result, Failure):
        name = getattr(request.errback, "__name__", "none")
        Now.seen.errbacks.append(f"{name} {result.type.__name__} {_text(request)}")
    return await _CALL_SPIDER(scraper, result, request)


class Log(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        name = "hacs_crawler" if record.name.startswith("hacs_crawler") else record.name
        said = f" {record.getMessage()}" if name == "hacs_crawler" else ""
        Now.seen.logged.append(f"{record.levelname} {name}{said}")


def crawl(collection: Collection, spiders: Spiders, seen: Seen, folder: Path) -> None:
    """Run one crawl in this process; what is seen of it is in `seen`."""
    os.chdir(folder)
    socket.getaddrinfo = _no_host  # some spiders and pipelines ask by themselves
    random.seed(0)
    Scraper.call_spider_async = _call_spider
    spider = spiders[seen.job.spider]
    if hasattr(spider, "download_delay"):
        spider.download_delay = 0
    if hasattr(spider, "start_requests"):
        spider.start = _start
    Now.seen, Now.web = seen, _web(spider, seen.round)
    settings = Settings()
    settings.setmodule(collection.settings, "project") if collection.settings else None
    _bring(settings, collection.overrides, "project")
    given = {**SETTINGS, **MODES[seen.job.mode], **REACTORS[seen.job.reactor]}
    given["HACS_STATE"] = f"sqlite:///{folder}/state.db"
    _bring(settings, given, "cmdline")
    logging.getLogger().addHandler(Log(logging.WARNING))
    is_asyncio = seen.job.reactor != "epoll"
    process = (crawlers.AsyncCrawlerProcess if is_asyncio else CrawlerProcess)(settings, False)
    crawler: Crawler = process.create_crawler(spider)
    _listen(crawler, seen)
    process.crawl(crawler, **collection.arguments)
    process.start()


async def _start(spider: Any) -> AsyncIterator[Any]:
    """Begin as spiders did before Scrapy 2.13: many have no other way."""
    for entry in spider.start_requests():
        yield entry


def _no_host(*_: Any, **__: Any) -> Any:
    raise OSError("no network")


def _bring(settings: Settings, given: dict[str, Any], priority: str) -> None:
    for name, value in given.items():
        merged = name.endswith(("MIDDLEWARES", "PIPELINES", "EXTENSIONS", "ADDONS"))
        settings.set(name, {**settings.getdict(name), **value} if merged else value, priority)


def _listen(crawler: Crawler, seen: Seen) -> None:
    for of, receiver in {
        signals.item_scraped: lambda item: seen.items.append(_item_text(item)),
        signals.item_dropped: lambda: setattr(seen, "dropped", seen.dropped + 1),
        signals.spider_closed: lambda reason: setattr(seen, "reason", reason),
    }.items():
        crawler.signals.connect(receiver, of, weak=False)


def _noted(entry: Any) -> Any:
    if not isinstance(entry, Request):
        Now.seen.yielded.append(_item_text(entry))
    return entry


def _item_text(item: Any) -> str:
    from itemadapter import ItemAdapter

    plain = ItemAdapter(item).asdict() if ItemAdapter.is_item(item) else repr(item)
    return _ADDRESS.sub("", json.dumps(plain, default=repr, sort_keys=True))


def _text(request: Request) -> str:
    return f"{request.method} {request.url} {request.body.decode(errors='replace')}".strip()


def _web(spider: type[Spider], round_: int) -> Web:
    own = [one for one in spider.__mro__ if not one.__module__.startswith(("scrapy.", "builtins"))]
    modules = dict.fromkeys(sys.modules[one.__module__] for one in own)
    sources = "\n".join(filter(None, (_source(module) for module in modules)))
    rules = [rule[0] for rule in getattr(spider, "sitemap_rules", ()) if rule and rule[0]]
    for rule in getattr(spider, "rules", ()):
        rules += [pattern.pattern for pattern in getattr(rule.link_extractor, "allow_res", ())]
    return Web(sources, [rule for rule in rules if isinstance(rule, str)], round_)


def _source(module: Any) -> str:
    try:
        return inspect.getsource(module)
    except (OSError, TypeError):
        return ""


def _forked(collection: Collection, spiders: Spiders, seen: Seen, folder: Path) -> int:
    """Run a crawl in a fork, which writes what is seen of it into the folder; return its number."""
    process = os.fork()
    if process:
        return process
    signal.alarm(MOST_SECONDS)
    with (folder / "log").open("w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    status = 1
    try:
        crawl(collection, spiders, seen, folder)
        status = 0
    except BaseException as error:  # noqa: BLE001 - the same with the add-on, or else it is seen
        seen.logged.append(f"ended with {error!r}")
    finally:
        (folder / f"{seen.round}.json").write_text(json.dumps(asdict(seen)))
        os._exit(status)


def _run_all(collection: Collection, spiders: Spiders, jobs: list[Job], results: Path) -> None:
    """Run each job's rounds one after the other, and a few jobs at once."""
    waiting, running = list(reversed(jobs)), {}
    with results.open("a") as file, tempfile.TemporaryDirectory(prefix="hacs-foreign-") as all_:
        while waiting or running:
            while waiting and len(running) < AT_ONCE:
                job, folder = waiting.pop(), Path(tempfile.mkdtemp(dir=all_))
                running[_forked(collection, spiders, Seen(job, 0), folder)] = (job, 0, folder)
            process, status = os.wait()
            job, round_, folder = running.pop(process)
            result = folder / f"{round_}.json"
            seen = json.loads(result.read_text()) if result.exists() else asdict(Seen(job, round_))
            if not result.exists():
                seen["reason"] = f"killed: {status}"
            file.write(json.dumps(seen) + "\n")
            file.flush()
            if round_ + 1 < ROUNDS and result.exists():
                again = _forked(collection, spiders, Seen(job, round_ + 1), folder)
                running[again] = (job, round_ + 1, folder)
            else:
                shutil.rmtree(folder, ignore_errors=True)


def _spiders(packages: list[str]) -> dict[str, type[Spider]]:
    """Import the spiders that can be imported here: some need what only their project installs."""
    found: dict[str, type[Spider]] = {}
    for package in packages:
        root = import_module(package)
        names = [one.name for one in walk_packages(root.__path__, f"{package}.")]
        for name in names if hasattr(root, "__path__") else [package]:
            try:
                found |= {one.name: one for one in iter_spider_classes(import_module(name))}
            except Exception:
                logging.getLogger(__name__).info("%s cannot be imported", name, exc_info=True)
    return found


def main() -> None:
    name, folder = sys.argv[1:3]
    jobs, results = (Path(one).absolute() for one in sys.argv[3:])
    collection = COLLECTIONS[name]
    os.environ.update(collection.environment)
    os.chdir(Path(folder, collection.folder))
    sys.path.insert(0, str(Path.cwd()))
    settings = Settings()
    if collection.settings:
        settings.setmodule(collection.settings)
    forks.preload()
    spiders = _spiders(collection.spiders or settings["SPIDER_MODULES"])
    if jobs.name == "list":
        results.write_text("".join(f"{name}\n" for name in sorted(spiders)))
        return
    gc.freeze()
    lines = jobs.read_text().splitlines()
    _run_all(collection, spiders, [Job(**json.loads(line)) for line in lines], results)


if __name__ == "__main__":
    main()
