"""Shards crawled: each page by one of them, no host by two, and what one comes across is another's."""

from __future__ import annotations

import signal
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

import forks
from hacs_crawler.shards import shard_lock
from hacs_crawler.state import shard_of_page
from integration_support import ADDONS, QUICK, ROOT, AnySpider, Project, finish, read_until
from reliability_support import Moments, whole_pages
from servers import Site, redis_server

HOSTS = [f"127.0.0.{number}" for number in range(1, 13)]
WANDERER = """
    from scrapy import Request, Spider
    from hacs_crawler.parts.shards import hold
    from hacs_crawler.shards import lock

    hold.RENEW_SECONDS = hold.RETRY_SECONDS = 0.05  # else tests take a minute
    lock.RELIED_ON_SECONDS = 0.5


    class Wanderer(Spider):
        name = "wanderer"

        def __init__(self, url, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.start_urls = [url + "/"]

        def parse(self, response, **kwargs):
            for link in response.css("a::attr(href)").getall():
                yield Request(response.urljoin(link), self.parse_leaf, cb_kwargs={"by": "wanderer"})

        def parse_leaf(self, response, by):
            yield {"url": response.url, "by": by}
"""


@pytest.fixture
def hosts() -> Iterator[Site]:
    """A site of many hosts."""
    with Site("0.0.0.0") as site:
        yield site


def test_a_shard_without_pages_has_nothing_to_do(site: Site, project: Project) -> None:
    site.set("/")
    index = 1 - shard_of_page(f"{site.url}/", 2)
    for seeds in ([f"{site.url}/"], "state"):
        crawl = project.crawl(seeds, HACS_SHARD=f"{index}/2")
        assert crawl.exit_status == 0, crawl.log[-3000:]
        assert " ERROR: " not in crawl.log
        assert site.visited() == []


def test_another_scheduler_ends_the_crawl_in_one_line(site: Site, project: Project) -> None:
    settings = {"HACS_SHARD": "1/4", "SCHEDULER": "scrapy.core.scheduler.Scheduler"}
    crawl = project.crawl([f"{site.url}/"], **settings)
    assert crawl.exit_status == 1
    (error,) = (line for line in crawl.log.splitlines() if " ERROR: " in line)
    assert "HACS_SHARD needs HACS's own SCHEDULER" in error
    assert "Traceback" not in crawl.log
    assert site.visited() == []


def of_shard(site: Site, index: int, count: int = 2) -> str:
    """The address of a host of a shard."""
    return next(url for url in map(site.url_of, HOSTS) if shard_of_page(f"{url}/", count) == index)


def test_a_page_of_another_shard_is_visited_by_the_next_crawl_of_that(
    hosts: Site, tmp_path: Path
) -> None:
    own, other = of_shard(hosts, 0), of_shard(hosts, 1)
    hosts.set("/", "/leaf", f"{other}/other", f"{other}/twice", f"{other}/twice#again")
    for path in ("/leaf", "/other", "/twice"):
        hosts.set(path)
    spider = AnySpider(tmp_path, hosts)

    crawl = spider.run(WANDERER, "-a", f"url={own}", HACS_PAGES="all", HACS_SHARD="0/2")
    assert crawl.exit_status == 0, crawl.log[-3000:]
    assert sorted(hosts.visited()) == ["/", "/leaf"]
    assert crawl.stat("hacs/shard/handed_over") == 2
    assert crawl.log.count("it is put into the state of that shard") == 1
    state = f"sqlite:///{tmp_path}/state.db"
    handed_over = whole_pages(state, "hacs.1-2").values()
    assert {page.url for page in handed_over} == {f"{other}/other", f"{other}/twice"}

    crawl = spider.run(WANDERER, "-a", f"url={own}", HACS_PAGES="all", HACS_SHARD="1/2")
    assert crawl.stat("hacs/shard/left_out") == 1
    assert crawl.stat("hacs/shard/taken_over") == 2
    assert {item["url"] for item in crawl.items} == {f"{other}/other", f"{other}/twice"}
    assert {item["by"] for item in crawl.items} == {"wanderer"}
    assert sorted(hosts.visited()) == ["/other", "/twice"]

    crawl = spider.run(WANDERER, "-a", f"url={own}", HACS_PAGES="all", HACS_SHARD="1/2")
    assert hosts.visited() == []


AFTER_A_PAUSE = """
    import asyncio
    from scrapy import Request, Spider


    class Wanderer(Spider):
        name = "wanderer"

        async def start(self):
            await asyncio.sleep(1)  # as a login does: what was handed over is ranked and sent meanwhile
            for url in self.url.split():
                yield Request(url, dont_filter=self.filtered == "0")

        def parse(self, response, **kwargs):
            yield {"url": response.url, "by": "start"}

        def parse_leaf(self, response, by):
            yield {"url": response.url, "by": by}
"""


@pytest.mark.parametrize("filtered", [0, 1])
def test_a_page_that_is_handed_over_and_yielded_later_is_visited_once(
    hosts: Site, tmp_path: Path, filtered: int
) -> None:
    own, other = of_shard(hosts, 0), of_shard(hosts, 1)
    hosts.set("/", f"{other}/both")
    for path in ("/both", "/yielded"):
        hosts.set(path)
    spider = AnySpider(tmp_path, hosts)
    spider.run(WANDERER, "-a", f"url={own}", HACS_PAGES="all", HACS_SHARD="0/2")
    hosts.visited()

    urls = f"url={other}/both {other}/yielded"
    crawl = spider.run(AFTER_A_PAUSE, "-a", urls, "-a", f"filtered={filtered}", HACS_SHARD="1/2")
    assert crawl.exit_status == 0, crawl.log[-3000:]
    assert hosts.visited() == ["/both", "/yielded"]
    assert [item["by"] for item in crawl.items] == ["wanderer", "start"]


def test_a_page_of_another_shard_is_in_the_plan_of_that(hosts: Site, project: Project) -> None:
    own, other = of_shard(hosts, 0), of_shard(hosts, 1)
    hosts.set("/", Location=f"{other}/home/", status=302)
    hosts.set("/home/", f"{other}/home/below/")
    hosts.set("/home/below/")
    project.crawl([f"{own}/"], HACS_SHARD="0/2")
    assert hosts.visited() == ["/", "/home/"]
    crawl = project.crawl("state", "-a", "level=homepage", HACS_SHARD="1/2")
    assert crawl.exit_status == 0, crawl.log[-3000:]
    assert hosts.visited() == ["/home/below/"]


def test_what_is_no_page_passes(hosts: Site, tmp_path: Path) -> None:
    own, other = of_shard(hosts, 0), of_shard(hosts, 1)
    hosts.set("/", f"{other}/leaf")
    hosts.set("/leaf")
    crawl = AnySpider(tmp_path, hosts).run(WANDERER, "-a", f"url={own}", HACS_SHARD="0/2")
    assert hosts.visited() == ["/", "/leaf"]
    assert crawl.stat("hacs/shard/handed_over") == 0


def test_what_is_handed_over_survives_a_kill(hosts: Site, tmp_path: Path) -> None:
    own, other = of_shard(hosts, 0), of_shard(hosts, 1)
    leaves = [f"/{number}" for number in range(300)]
    hosts.set("/", f"{other}/other", *leaves)
    for leaf in leaves:
        hosts.set(leaf)
    state = f"sqlite:///{tmp_path}/state.db"
    process = begin(tmp_path, own, HACS_STATE=state, HACS_SHARD="0/2", DOWNLOAD_DELAY=0.05)
    handed_over = next(filter(None, (whole_pages(state, "hacs.1-2") for _ in process.stderr)))
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert {page.url for page in handed_over.values()} == {f"{other}/other"}
    assert whole_pages(state, "hacs.1-2") == handed_over


AWAY = """
    from hacs_crawler.exceptions import StateUnavailableError
    from hacs_crawler.parts.shards import shards

    write, tries = shards.hand_over, []


    def failing(*arguments):
        tries.append(arguments)
        if len(tries) < {most}:
            raise StateUnavailableError("the state is away")
        return write(*arguments)


    shards.hand_over, shards.CLOSING_PAUSES_SECONDS = failing, (0.01, 0.01)
"""


@pytest.mark.parametrize(("most", "status"), [(3, 0), (99, 1)])
def test_what_cannot_be_handed_over_is_tried_again_and_then_said(
    hosts: Site, tmp_path: Path, most: int, status: int
) -> None:
    own, other = of_shard(hosts, 0), of_shard(hosts, 1)
    hosts.set("/", f"{other}/a", f"{other}/b")
    code = textwrap.dedent(AWAY).format(most=most) + textwrap.dedent(WANDERER)
    settings = {"HACS_PAGES": "all", "HACS_SHARD": "0/2"}
    crawl = AnySpider(tmp_path, hosts).run(code, "-a", f"url={own}", **settings)
    assert crawl.exit_status == status
    said = "2 pages could not be handed over: the state is away"
    assert crawl.log.count(said) == status
    assert "Traceback" not in crawl.log


def begin(folder: Path, url: str, **settings: object) -> forks.Started:
    """Start a crawl of the wanderer, which a test talks to."""
    file = folder / "wanderer.py"
    file.write_text(textwrap.dedent(WANDERER))
    named = {"ADDONS": ADDONS, "HACS_PAGES": "all", "LOG_LEVEL": "DEBUG"} | settings
    command = ["runspider", str(file), "-a", f"url={url}"]
    options = [*QUICK, *(f"{name}={value}" for name, value in named.items())]
    command += [part for one in options for part in ("-s", one)]
    return forks.start("scrapy", command, ROOT)


def test_a_second_crawl_of_a_shard_waits_until_the_first_has_ended(
    site: Site, tmp_path: Path
) -> None:
    site.set("/")
    state = f"sqlite:///{tmp_path}/state.db"
    lock = shard_lock(state, "hacs.0-1", tmp_path)
    assert lock.take() is None
    process = begin(tmp_path, site.url, HACS_STATE=state, HACS_SHARD="0/1")
    log = read_until(process, "this crawl waits")
    assert site.visited() == []
    lock.release()
    assert finish(process, log).exit_status == 0
    assert site.visited() == ["/"]


def test_a_crawl_that_waits_can_be_stopped(site: Site, tmp_path: Path) -> None:
    state = f"sqlite:///{tmp_path}/state.db"
    lock = shard_lock(state, "hacs.0-1", tmp_path)
    assert lock.take() is None
    process = begin(tmp_path, site.url, HACS_STATE=state, HACS_SHARD="0/1")
    log = read_until(process, "this crawl waits")
    process.send_signal(signal.SIGINT)
    crawl = finish(process, log)
    assert "'finish_reason': 'shutdown'" in crawl.log
    assert "Traceback" not in crawl.log
    assert site.visited() == []
    lock.release()


def many(site: Site) -> list[str]:
    leaves = [f"/{number}" for number in range(100)]
    site.set("/", *leaves)
    for leaf in leaves:
        site.set(leaf)
    return ["/", *leaves]


def test_a_crawl_whose_shard_another_has_ends_and_sends_nothing_more(
    site: Site, tmp_path: Path, redis_port: int, namespace: str
) -> None:
    many(site)
    key = f"{namespace}.0-1:lock"
    with redis.Redis(port=redis_port) as server:
        site.asked = Moments({10: lambda: server.set(key, "another's")})
        crawl = AnySpider(tmp_path, site).run(
            WANDERER,
            HACS_STATE=f"redis://127.0.0.1:{redis_port}/0",
            HACS_NAMESPACE=namespace,
            HACS_PAGES="all",
            HACS_SHARD="0/1",
            DOWNLOAD_DELAY=0.1,
            CONCURRENT_REQUESTS=100,
        )
        assert server.get(key) == b"another's"
    assert crawl.exit_status == 1
    assert "'finish_reason': 'hacs_error'" in crawl.log
    assert crawl.log.count("the lock of shard 0/1 ran out, so that another crawl may have it") == 1
    assert "Traceback" not in crawl.log
    assert len(site.asked) < 60


def test_a_crawl_goes_on_when_redis_is_back_and_sends_nothing_meanwhile(
    site: Site, tmp_path: Path
) -> None:
    paths = many(site)
    options = ("--appendonly", "yes", "--appendfsync", "always")
    with redis_server(tmp_path, *options) as port:
        process = begin(
            tmp_path,
            site.url,
            HACS_STATE=f"redis://127.0.0.1:{port}/0",
            HACS_SHARD="0/1",
            DOWNLOAD_DELAY=0.05,
        )
        log = read_until(process, "GET", times=10)
    log += read_until(process, "nothing is sent until the lock is renewed")
    before = len(site.asked)
    with redis_server(tmp_path, *options, port=port):
        assert len(site.asked) <= before + 1  # what was under way
        crawl = finish(process, log)
    assert crawl.exit_status == 0, crawl.log[-3000:]
    assert "The lock of shard 0/1 is renewed: the crawl goes on" in crawl.log
    assert sorted(site.visited()) == sorted(paths)


def test_without_a_shard_there_is_no_lock(site: Site, project: Project) -> None:
    site.set("/")
    project.crawl([f"{site.url}/"])
    assert not list(project.folder.glob("*.lock"))
