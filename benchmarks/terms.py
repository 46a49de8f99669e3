"""Terms of service that change, crawled day by day: what is found where their text is watched.

Serves real histories of texts (`versions.csv.gz`: url, seen_at, text) from this machine, at a clock that
is moved a day a crawl, and crawls them with Scrapy under each policy. A page is generated: twenty
paragraphs, and one of its own for each number of a text. Before the first crawl the state is given the
captures (`captures.csv`: url, captured_at). Prints for each policy the visits that found an update, how
many of these were none (the text was that of the visit before), and those that were missed.

    python benchmarks/terms.py FOLDER --watch text --days 60 --budget 38
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import subprocess
import sys
import tempfile
import threading
from bisect import bisect_right
from contextlib import closing
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import scrapy
from scrapy.crawler import CrawlerProcess
from scrapy.http import HtmlResponse
from scrapy.settings import Settings
from twisted.internet.defer import Deferred

from hacs_crawler.config import Config
from hacs_crawler.crawl.observation import observe
from hacs_crawler.demo import tutorial
from hacs_crawler.links import page_id_of
from hacs_crawler.state import follow_prior, open_state

DAY = 86_400
POLICIES = ("hacs", "last-obs", "random")


def second(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


class Texts:
    """Which text each page had when, by its path on the local site, and the host that has it."""

    def __init__(self, folder: Path, start: int, port: int) -> None:
        self.versions: dict[str, tuple[list[int], list[int]]] = {}
        self.urls: dict[str, str] = {}
        hosts: dict[str, str] = {}
        with (folder / "pages.csv").open() as file:
            for row in csv.DictReader(file):
                name = urlsplit(row["url"]).netloc
                number = len(hosts)
                host = hosts.setdefault(name, f"127.0.{1 + number // 250}.{1 + number % 250}")
                path = f"/{name}{urlsplit(row['url']).path}"
                self.urls[row["url"]] = f"http://{host}:{port}{path}"
                self.versions[path] = ([], [])
        with gzip.open(folder / "versions.csv.gz", "rt") as file:
            for row in csv.DictReader(file):
                if row["url"] in self.urls:
                    times, texts = self.versions[urlsplit(self.urls[row["url"]]).path]
                    times.append(second(row["seen_at"]))
                    texts.append(int(row["text"]))
        with (folder / "captures.csv").open() as file:
            rows = [(row["url"], second(row["captured_at"])) for row in csv.DictReader(file)]
        self.captures = [
            (self.urls[url], at) for url, at in rows if url in self.urls and at < start
        ]

    def text(self, path: str, at: float) -> int:
        times, texts = self.versions[path]
        return texts[max(bisect_right(times, at) - 1, 0)]

    def page(self, path: str, at: float) -> bytes:
        same = "".join(
            f"<p>Clause {n} of the terms of {path} says that you may do nothing in way {n}.</p>"
            for n in range(20)
        )
        own = (
            f"<p>This is the clause that only text number {self.text(path, at)} of {path} has.</p>"
        )
        menu = '<nav><a href="/">Home</a> <a href="/about">About us</a></nav>'
        body = f"{menu}<main><h1>Terms of {path}</h1>{same}{own}</main>"
        return f"<html><head><title>Terms</title></head><body>{body}</body></html>".encode()


class Terms(scrapy.Spider):
    name = "terms"

    def parse(self, response):  # type: ignore[no-untyped-def]
        outcome = response.meta["hacs"]
        self.seen.append((outcome.url, outcome.is_update))


def play(
    folder: Path, policy: str, watch: str, days: int, budget: int, start: int
) -> dict[str, int]:
    """Crawl day by day; return how many visits found an update, and which were wrong."""
    work = Path(tempfile.mkdtemp())
    file = work / "clock"
    os.environ[tutorial.VARIABLE] = str(file)
    tutorial.set_clock(file, start)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            is_page = self.path in texts.versions
            body = texts.page(self.path, tutorial.now()) if is_page else b""
            self.send_response(200 if is_page else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("0.0.0.0", 0), Handler)
    texts = Texts(folder, start, server.server_address[1])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings = Settings(
        {
            "ADDONS": {"hacs_crawler.addon.HacsAddon": 500},
            "HACS_STATE": f"sqlite:///{work}/state.db",
            "HACS_POLICY": policy,
            "HACS_BUDGET": budget,
            "HACS_WATCH": watch,
            "HACS_CLOCK": "hacs_crawler.demo.tutorial.now",
            "LOG_ENABLED": False,
            "HTTPPROXY_ENABLED": False,
            "TELNETCONSOLE_ENABLED": False,
            "DOWNLOAD_DELAY": 0,
        },
        priority="cmdline",
    )
    config = Config.from_settings(settings)
    last: dict[str, int] = {}
    visits = []
    for url, at in texts.captures:
        path = urlsplit(url).path
        body = texts.page(path, at)
        visits.append(observe(HtmlResponse(url, body=body), url, at, config.rules).visit)
        last[url] = texts.text(path, at)
    with closing(open_state(*config.state_arguments)) as state:
        state.record([visit for visit in visits if visit is not None])
        follow_prior(state, lambda *_: None)
    counts = {"visits": 0, "hits": 0, "false": 0, "missed": 0}
    process = CrawlerProcess(settings)

    async def crawls() -> None:
        for day in range(days):
            tutorial.set_clock(file, start + day * DAY)
            Terms.seen: list[tuple[str, bool]] = []
            crawler = process.create_crawler(Terms)
            await process.crawl(crawler, start_urls=list(texts.urls.values()))
            for url, is_update in Terms.seen:
                text = texts.text(urlsplit(url).path, start + day * DAY)
                is_true = url in last and last[url] != text
                last[url] = text
                counts["visits"] += 1
                counts["hits"] += is_update
                counts["false"] += is_update and not is_true
                counts["missed"] += is_true and not is_update

    def end(result: object) -> None:
        from twisted.internet import reactor

        if result is not None:
            print(result, file=sys.stderr)
        reactor.stop()

    Deferred.fromCoroutine(crawls()).addBoth(end)
    process.start(stop_after_crawl=False)
    server.shutdown()
    with closing(open_state(*config.state_arguments)) as state:
        sizes = map(
            len, state.store.load([page_id_of(url) for url in texts.urls.values()]).values()
        )
        counts["bytes a page"] = sum(sizes) // len(texts.urls)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--watch", default="text")
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--budget", type=int, default=38)
    parser.add_argument("--start", type=second, default=second("2024-01-01T00:00:00+00:00"))
    parser.add_argument("--policy", help="this one only")
    options = parser.parse_args()
    if options.policy:
        given = (options.watch, options.days, options.budget, options.start)
        print(json.dumps(play(options.folder, options.policy, *given)))
        return
    for policy in POLICIES:
        command = [sys.executable, __file__, *sys.argv[1:], "--policy", policy]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        print(f"{policy:>10}  {done.stdout.strip()}", flush=True)


if __name__ == "__main__":
    main()
