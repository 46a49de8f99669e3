"""Every page of four ordinary projects: what a quarter of their requests finds, run after run.

python benchmarks/every_page.py         # about 8 minutes; --runs 40 --pages 120 --share 0.25 --seed 1

Four spiders of the kinds that Scrapy's users write (quotes behind numbered listings, books by a
`CrawlSpider`, a shop by its sitemap, a forum with boards and threads) crawl local sites once a day, by
a clock that is moved. Pages gain links at rates drawn log-normally (median 20 days, log deviation 1.5).
The first run is the plain spider's, which visits everything; the others get a share of its requests,
with HACS_PAGES = "all" and HACS_REVISIT = "budget". In the last half of the runs it is counted

- how many visits found links that the page had gained since the visit before (found), and how many of
  them on the day they came (in a day);
- what an oracle finds within a day with as many requests: it visits the pages that gained links;
- what the plain spider's own order finds with as many requests (Scrapy alone, CLOSESPIDER_PAGECOUNT).
"""

import argparse
import os
import sys
import tempfile
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests"))
import forks  # noqa: E402 - what starts Scrapy at once for the tests

DAY = 86_400
START = 1_700_000_000
MEDIAN_DAYS, LOG_SD = 20.0, 1.5
PER_LISTING = 10
ADDON = 'ADDONS={"hacs_crawler.addon.HacsAddon": 500}'
COMMON = {
    "ADDONS": "{}",
    "AUTOTHROTTLE_ENABLED": False,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
    "COOKIES_ENABLED": True,
    "DOWNLOAD_DELAY": 0,
    "ROBOTSTXT_OBEY": False,
}

QUOTES = """
import scrapy

class Quotes(scrapy.Spider):
    name = "quotes"

    async def start(self):
        yield scrapy.Request({url!r} + "/list/0")

    def parse(self, response):
        for link in response.css("a.item::attr(href)").getall():
            yield response.follow(link, self.parse_author, cb_kwargs={{"listing": response.url}})
        for link in response.css("a.next::attr(href)").getall():
            yield response.follow(link)

    def parse_author(self, response, listing):
        yield {{"url": response.url, "listing": listing}}
"""
BOOKS = """
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

class Books(CrawlSpider):
    name = "books"
    start_urls = [{url!r} + "/list/0"]
    rules = (
        Rule(LinkExtractor(allow="/list/")),
        Rule(LinkExtractor(allow="/item/[0-9]+$"), callback="parse_item"),
    )

    def parse_item(self, response):
        yield {{"url": response.url}}
"""
SHOP = """
from scrapy.spiders import SitemapSpider

class Shop(SitemapSpider):
    name = "shop"
    sitemap_urls = [{url!r} + "/sitemap.xml"]
    sitemap_rules = [("/item/", "parse_item")]

    def parse_item(self, response):
        yield {{"url": response.url}}
"""
FORUM = """
import scrapy

class Forum(scrapy.Spider):
    name = "forum"
    start_urls = [{url!r} + "/board"]

    def parse(self, response):
        for number, link in enumerate(response.css("a.board::attr(href)").getall()):
            yield response.follow(link, self.parse_board, priority=1, meta={{"board": number}})

    async def parse_board(self, response):
        for link in response.css("a.item::attr(href)").getall():
            yield response.follow(link, self.parse_thread, meta={{"board": response.meta["board"]}})

    def parse_thread(self, response):
        yield {{"url": response.url, "board": response.meta["board"]}}
"""
PROJECTS = {"quotes": QUOTES, "books": BOOKS, "shop": SHOP, "forum": FORUM}


def clock() -> float:
    """Return the time of the simulated day."""
    return float(os.environ["PAGES_NOW"]) + time.monotonic() - float(os.environ["PAGES_BEGAN"])


class Web:
    """What the pages of one site show, and what visits found."""

    def __init__(self, pages: int, days: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        rates = np.exp(random.normal(-np.log(MEDIAN_DAYS), LOG_SD, pages))
        self.updates = [
            np.sort(random.uniform(0, days * DAY, random.poisson(rate * days))) for rate in rates
        ]
        self.pages, self.now, self.url = pages, 0.0, ""
        self.forget()

    def forget(self) -> None:
        """Begin anew: nobody has seen anything."""
        self.seen: dict[int, int] = {}
        self.found = self.in_a_day = self.requests = 0

    def gained(self, page: int, at: float) -> int:
        return int(np.searchsorted(self.updates[page], at))

    def changed_today(self) -> int:
        return sum(
            self.gained(page, self.now) > self.gained(page, self.now - DAY)
            for page in range(self.pages)
        )

    def body(self, path: str) -> str:
        self.requests += 1
        listings = -(-self.pages // PER_LISTING)
        if path == "/sitemap.xml":
            names = (f"<url><loc>{self.url}/item/{one}</loc></url>" for one in range(self.pages))
            schema = "http://www.sitemaps.org/schemas/sitemap/0.9"
            return f'<urlset xmlns="{schema}">{"".join(names)}</urlset>'
        if path == "/board":
            return "".join(f'<a class="board" href="/list/{one}">b</a>' for one in range(listings))
        kind, number = path.strip("/").split("/")
        if kind == "list":
            first = PER_LISTING * int(number)
            items = range(first, min(first + PER_LISTING, self.pages))
            links = "".join(f'<a class="item" href="/item/{one}">i</a>' for one in items)
            following = int(number) + 1
            if following < listings:
                links += f'<a class="next" href="/list/{following}">next</a>'
            return links
        return self.item(int(number))

    def item(self, page: int) -> str:
        gained = self.gained(page, self.now)
        if gained > self.seen.get(page, gained):
            self.found += 1
            self.in_a_day += gained > self.gained(page, self.now - DAY)
        self.seen[page] = gained
        return "".join(
            f'<a href="http://out.example/{page}/{one}">x</a>' for one in range(5 + gained)
        )


def serve(web: Web) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path == "/robots.txt":
                self.send_error(404)
                return
            body = web.body(self.path).encode()
            self.send_response(200)
            kind = "application/xml" if self.path.endswith(".xml") else "text/html"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    web.url = f"http://127.0.0.1:{server.server_address[1]}"
    return server


def crawl(folder: Path, now: float, settings: list[str]) -> str:
    environment = {**os.environ, "PAGES_NOW": str(now), "PAGES_BEGAN": str(time.monotonic())}
    command = ["runspider", str(folder / "spider.py")]
    for one in [*(f"{name}={value}" for name, value in COMMON.items()), *settings]:
        command += ["-s", one]
    done = forks.run("scrapy", command, ROOT, environment=environment)
    if done.returncode:
        sys.exit(done.stderr.decode())
    return done.stderr.decode()


def days_of(
    web: Web, folder: Path, runs: int, first: list[str], later: list[str]
) -> dict[str, int]:
    """Crawl once a day; return what was counted in the last half."""
    web.forget()
    oracle = 0
    for day in range(runs):
        web.now = (day + 1) * DAY
        if day == runs // 2:
            web.found = web.in_a_day = web.requests = 0
        crawl(folder, START + web.now, first if day == 0 else later)
        if day == 0:
            whole = web.requests
        if day >= runs // 2:
            oracle += web.changed_today()
    return {
        "whole": whole,
        "requests": web.requests,
        "found": web.found,
        "in a day": web.in_a_day,
        "oracle": oracle,
    }


def measure(name: str, options: argparse.Namespace) -> None:
    web = Web(options.pages, options.runs + 1, options.seed + list(PROJECTS).index(name))
    server = serve(web)
    with tempfile.TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        (folder / "spider.py").write_text(PROJECTS[name].format(url=web.url))
        crawl(folder, START, [])
        budget = round(options.share * web.requests)
        state = [
            ADDON,
            f"HACS_STATE=sqlite:///{folder}/state.db",
            "HACS_CLOCK=benchmarks.every_page.clock",
        ]
        every = [*state, "HACS_PAGES=all", *options.s]
        few = [*every, f"HACS_BUDGET={budget}", "HACS_REVISIT=budget"]
        ours = days_of(web, folder, options.runs, every, few)
        alone = days_of(
            web,
            folder,
            options.runs,
            [],
            [f"CLOSESPIDER_PAGECOUNT={budget}", "CONCURRENT_REQUESTS=1"],
        )
    server.shutdown()
    days = options.runs - options.runs // 2
    oracle = ours["oracle"]
    print(
        f"| {name} | {ours['whole']} | {budget} | {ours['requests'] / days:.1f} | {ours['found']} | "
        f"{ours['in a day']} | {oracle} | {ours['found'] / oracle:.2f} | "
        f"{ours['in a day'] / oracle:.2f} | {alone['found']} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--pages", type=int, default=120)
    parser.add_argument("--share", type=float, default=0.25)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--projects", default=",".join(PROJECTS))
    parser.add_argument("-s", action="append", default=[], help="a setting of the crawls with HACS")
    options = parser.parse_args()
    print(
        "| project | all | budget | used | found | in a day | oracle | ratio | in a day | alone |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in options.projects.split(","):
        measure(name, options)


if __name__ == "__main__":
    main()
