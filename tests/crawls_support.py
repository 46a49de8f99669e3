"""Crawls of shards as a user runs them: a project, a site of many hosts, Dask in processes."""

import os
import re
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from distributed import Client

from forks import wait_until
from integration_support import ROOT
from servers import Site, free_port

DEADLINE_SECONDS = 480.0
_SETTINGS = """
SPIDER_MODULES = ["spiders"]
ADDONS = {"hacs_crawler.addon.HacsAddon": 500}
HACS_SPIDERS = True
CONCURRENT_REQUESTS_PER_DOMAIN = 1
HACS_CONTROLS = 0
RANDOMIZE_DOWNLOAD_DELAY = False
RETRY_ENABLED = False
DOWNLOADER_MIDDLEWARES = {"spiders.Sender": 1}
"""
_SPIDERS = """
import os
import time
from pathlib import Path

import scrapy
from scrapy.utils.defer import maybe_deferred_to_future


def slow(candidates):
    Path("begun").touch()
    time.sleep(3)
    return candidates.p


class Sender:
    def process_request(self, request, spider=None):
        # not by the spider: a request handed over keeps the headers of the crawl that made it
        request.headers["User-Agent"] = str(os.getpid())


class Many(scrapy.Spider):
    name = "many"

    async def start(self):
        for page in range(int(self.pages)):
            for host in range(1, int(self.hosts) + 1):
                yield self.request(host, page)

    def request(self, host, page):
        url = f"http://127.0.0.{host}:{self.port}/{page}.html"
        return scrapy.Request(url)

    def parse(self, response):
        yield {"url": response.url}


class Found(Many):
    name = "found"
    custom_settings = {"HACS_PAGES": "all"}

    async def start(self):
        yield self.request(1, 0)

    def parse(self, response):
        yield {"url": response.url}
        yield from response.follow_all(css="a")


class Login(Many):
    name = "login"
    custom_settings = {"HACS_PAGES": "all"}

    async def start(self):
        url = f"http://127.0.0.100:{self.port}/login"  # by each crawl
        yield scrapy.FormRequest(url, formdata={"user": "x"}, callback=self.logged_in)

    def logged_in(self, response):
        for page in range(int(self.pages)):
            for host in range(1, int(self.hosts) + 1):
                yield self.request(host, page)


class Queue(Many):
    name = "queue"

    async def start(self):
        spool = Path("spool")
        while lines := sorted(spool.iterdir()):
            host, page = lines[0].name.split("-")
            try:
                lines[0].unlink()
            except FileNotFoundError:
                continue
            yield self.request(int(host), int(page))


class Map(scrapy.spiders.SitemapSpider, Many):
    name = "map"

    async def start(self):
        self.sitemap_urls = [f"http://127.0.0.100:{self.port}/sitemap.xml"]  # each crawl reads it
        async for request in super().start():
            yield request


class Async(Many):
    name = "async"

    async def start(self):
        url = f"http://127.0.0.100:{self.port}/login"  # by each crawl
        engine, login = self.crawler.engine, scrapy.FormRequest(url, formdata={"user": "x"})
        if hasattr(engine, "download_async"):
            await engine.download_async(login)
        else:  # Scrapy 2.13
            await maybe_deferred_to_future(engine.download(login))
        async for request in super().start():
            yield request


class Feed(scrapy.spiders.XMLFeedSpider, Many):
    name = "feed"
    custom_settings = {"HACS_PAGES": "all"}
    itertag = "link"

    async def start(self):
        yield scrapy.Request(f"http://127.0.0.100:{self.port}/feed.xml")

    def parse_node(self, response, node):
        yield scrapy.Request(node.xpath("string(.)").get(), self.visited)

    def visited(self, response):
        yield {"url": response.url}


class Fed(Many):
    name = "fed"
    redis_key = "fed:start_urls"
"""


@dataclass
class Web:
    """A site of many hosts, and what of it was asked for, and by which process."""

    site: Site
    pages: int
    hosts: int
    seen: int = 0
    """How many requests were looked at before."""

    @property
    def port(self) -> int:
        return int(self.site.url.rpartition(":")[2])

    def url(self, host: int, page: int) -> str:
        return self.url_of(f"127.0.0.{host}", f"/{page}.html")

    def url_of(self, host: str, path: str) -> str:
        return f"{self.site.url_of(host)}{path}"

    def asked(self) -> list[tuple[str, str]]:
        """Host and path of what was asked for since `forget`."""
        return [(host, path) for host, path, _ in self.site.requests[self.seen :]]

    def forget(self) -> None:
        self.seen = len(self.site.requests)

    def wait_for(self, number: int, process: subprocess.Popen[str]) -> None:
        wait_until(
            lambda: len(self.asked()) >= number or process.poll() is not None, f"{number} requests"
        )
        assert process.poll() is None, process.communicate()

    def check_hosts(self, most: int | None = None) -> None:
        """See that no host was asked by two processes by turns: one after the other alone.

        Of all requests, or of the first so many.
        """
        by_host = defaultdict(list)
        for host, _, process in self.site.requests[self.seen :][:most]:
            by_host[host].append(process)
        for host, processes in by_host.items():
            turns = [process for process, _ in groupby(processes)]
            assert len(turns) == len(set(turns)), f"{host} was asked by turns: {turns}"


@contextmanager
def web(pages: int, hosts: int) -> Iterator[Web]:
    with Site("0.0.0.0") as site:
        for page in range(pages):
            site.set(f"/{page}.html", f"/{page}/a", f"/{page}/b")
        yield Web(site, pages, hosts)


@dataclass
class Shards:
    """A Scrapy project whose shards are crawled."""

    folder: Path
    web: Web
    state: str
    settings: dict[str, object] = field(default_factory=dict)
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.folder / "scrapy.cfg").write_text("[settings]\ndefault = project\n")
        (self.folder / "project.py").write_text(_SETTINGS)
        (self.folder / "spiders.py").write_text(_SPIDERS)

    def edit(self, old: str, new: str) -> None:
        file = self.folder / "spiders.py"
        file.write_text(file.read_text().replace(old, new, 1))

    @property
    def environment(self) -> dict[str, str]:
        # what a command in this process has set names another project
        given = os.environ.items()
        kept = {name: one for name, one in given if not name.startswith(("COLUMNS", "SCRAPY_"))}
        paths = (str(self.folder), str(ROOT), str(ROOT / "tests"))
        return {**kept, "PYTHONPATH": os.pathsep.join(paths)}

    def start(
        self, spider: str = "many", *arguments: str, shards: int = 4, **settings: object
    ) -> subprocess.Popen[str]:
        given = {"HACS_STATE": self.state, **self.settings, **settings}
        options = [f"{name}={value}" for name, value in given.items()]
        web_ = {"pages": self.web.pages, "hosts": self.web.hosts, "port": self.web.port}
        web_ = {} if spider == "scholar" else web_
        command = [sys.executable, "-m", "hacs_crawler", "crawl", spider, "--shards", str(shards)]
        command += [part for name, value in web_.items() for part in ("-a", f"{name}={value}")]
        command += [part for option in options for part in ("-s", option)]
        process = subprocess.Popen(
            [*command, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    @property
    def server(self) -> int:
        return _parent(crawls_alive(self)[0])

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.communicate()

    def crawl(self, *arguments: str, status: int = 0, **settings: Any) -> "Done":
        return finish(self.start(*arguments, **settings), status)


SPIDERS = ["found", "login", "queue", "map", "async", "feed", "scholar"]
"""Which find pages on the way, log in first, take pages off a queue, or read a list of them."""


def check_rounds(project: Shards, spider: str, *arguments: str, **settings: object) -> None:
    """See that rounds of a spider visit as many pages as the budget has, and none twice.

    No host is asked by two crawls.
    """
    found = project.web
    pages = [(host, page) for host in range(1, found.hosts + 1) for page in range(found.pages)]
    urls = [found.url(*one) for one in pages]
    for page in range(found.pages):
        found.site.set(f"/{page}.html", *urls)
    found.site.set("/login")
    rows = "".join(f"<url><loc>{url}</loc></url>" for url in urls)
    items = "".join(f"<item><link>{url}</link></item>" for url in urls)
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    for path, kind, text in (
        ("/sitemap.xml", "xml", f'<?xml version="1.0"?><urlset xmlns="{space}">{rows}</urlset>'),
        ("/feed.xml", "rss+xml", f"<rss version='2.0'><channel>{items}</channel></rss>"),
    ):
        found.site.pages[path] = (200, {"Content-Type": f"application/{kind}"}, text.encode())
    (project.folder / "seeds.txt").write_text("\n".join(urls))
    rounds = [(15, "seeds.txt"), (30, "seeds.txt")]
    if spider == "scholar":
        rounds.append((25, "state"))
    for budget, seeds in rounds:
        (project.folder / "spool").mkdir(exist_ok=True)
        for host, page in pages:
            (project.folder / "spool" / f"{host}-{page}").touch()
        found.forget()
        own = ("-a", f"seeds={seeds}", "-a", "level=homepage") if spider == "scholar" else ()
        done = project.crawl(spider, *own, *arguments, shards=3, HACS_BUDGET=budget, **settings)
        asked = [one for one in found.asked() if one[1].endswith(".html")]
        assert len(asked) == len(set(asked)) == budget
        found.check_hosts()
        assert int(done.rows["all"][1]) == budget


@dataclass
class Done:
    """A `hacs crawl` that has ended."""

    table: str
    log: str

    @property
    def rows(self) -> dict[str, list[str]]:
        """The cells of the table behind the name of each shard."""
        lines = [re.split(r"\s{2,}", line.strip()) for line in self.table.splitlines()[1:]]
        return {name: cells for name, *cells in lines}


def finish(
    process: subprocess.Popen[str], status: int = 0, *, seconds: float = DEADLINE_SECONDS
) -> Done:
    try:
        table, log = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    assert process.returncode == status, log
    return Done(table, log)


class Dask:
    """A scheduler, and workers without nannies, each a process in the project's folder."""

    def __init__(self, project: Shards, stack: ExitStack, workers: int) -> None:
        self._project, self._stack = project, stack
        self.address = f"127.0.0.1:{free_port()}"
        host, port = self.address.split(":")
        self.scheduler = self._started("dask_scheduler", "--host", host, "--port", port)
        self.workers: list[subprocess.Popen[bytes]] = []
        self.add_workers(workers)

    def add_workers(self, number: int) -> None:
        given = ("--nthreads", "1", "--no-nanny", f"tcp://{self.address}")
        self.workers += [self._started("dask_worker", *given) for _ in range(number)]
        with Client(f"tcp://{self.address}", timeout=DEADLINE_SECONDS) as client:
            client.wait_for_workers(number, timeout=DEADLINE_SECONDS)

    def _started(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{module}", "--no-dashboard", *arguments],
            cwd=self._project.folder,
            env={**self._project.environment, "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "5s"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def crawls_of(self, worker: subprocess.Popen[bytes]) -> list[int]:
        return [
            one
            for one in crawls_alive(self._project)
            if _parent(_parent(one)) == worker.pid  # Python's fork server is between them
        ]


@contextmanager
def dask(project: Shards, workers: int) -> Iterator[Dask]:
    with ExitStack() as stack:
        stack.callback(project.end)
        yield Dask(project, stack, workers)


def crawls_alive(project: Shards) -> list[int]:
    """The processes of crawls in a project's folder, which are those that write its logs."""
    found = []
    for one in Path("/proc").glob("[0-9]*"):
        try:
            if (one / "fd/1").readlink().parent == project.folder / ".hacs":
                found.append(int(one.name))
        except OSError:
            continue
    return found


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
