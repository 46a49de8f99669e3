"""Shards crawled: each page by one of them, no host by two, and what one comes across is another's."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hacs_crawler.shards import shard_lock
from hacs_crawler.state import shard_of_page
from integration_support import AnySpider, Project, finish, read_until
from reliability_support import whole_pages
from servers import RedisProcess, Site

HOSTS = [f"127.0.0.{number}" for number in range(1, 13)]
WANDERER = """
    from scrapy import Request
    from tests.seeded import Seeded
    from hacs_crawler.parts.shards import hold
    from hacs_crawler.shards import lock

    hold.RENEW_SECONDS = hold.RETRY_SECONDS = 0.05  # else tests take a minute
    lock.RELIED_ON_SECONDS = 0.5

    class Wanderer(Seeded):
        def parse(self, response, **kwargs):
            for link in response.css("a::attr(href)").getall():
                yield Request(response.urljoin(link), self.parse_leaf, cb_kwargs={"by": "wanderer"})

        def parse_leaf(self, response, by):
            yield {"url": response.url, "by": by}
"""


@pytest.fixture
def hosts() -> Iterator[Site]:
    with Site("0.0.0.0") as site:
        yield site


def test_a_shard_without_pages_has_nothing_to_do(site: Site, project: Project) -> None:
    site.set("/")
    index = 1 - shard_of_page(f"{site.url}/", 2)
    for seeds in ([f"{site.url}/"], "state"):
        assert " ERROR: " not in project.crawl(seeds, HACS_SHARD=f"{index}/2").log
        assert site.visited() == []


def of_shard(site: Site, index: int, count: int = 2) -> str:
    return next(url for url in map(site.url_of, HOSTS) if shard_of_page(f"{url}/", count) == index)


def test_a_page_of_another_shard_is_visited_by_the_next_crawl_of_that(
    hosts: Site, tmp_path: Path
) -> None:
    own, other = of_shard(hosts, 0), of_shard(hosts, 1)
    hosts.set("/", "/leaf", f"{other}/other", f"{other}/twice", f"{other}/twice#again")
    for path in ("/leaf", "/other", "/twice"):
        hosts.set(path)
    spider = AnySpider(tmp_path, hosts)

    crawl = spider.run(WANDERER, f"url={own}", HACS_PAGES="all", HACS_SHARD="0/2")
    assert sorted(hosts.visited()) == ["/", "/leaf"]
    assert crawl.stat("hacs/shard/handed_over") == 2
    assert crawl.log.count("its request is handed over to the next crawl") == 1
    state = f"sqlite:///{tmp_path}/state.db"
    handed_over = whole_pages(state, "hacs.1-2").values()
    assert {page.url for page in handed_over} == {f"{other}/other", f"{other}/twice"}

    crawl = spider.run(WANDERER, f"url={own}", HACS_PAGES="all", HACS_SHARD="1/2")
    assert crawl.stat("hacs/shard/left_out") == 1
    assert crawl.stat("hacs/shard/taken_over") == 2
    assert {item["url"] for item in crawl.items} == {f"{other}/other", f"{other}/twice"}
    assert {item["by"] for item in crawl.items} == {"wanderer"}
    assert sorted(hosts.visited()) == ["/other", "/twice"]

    crawl = spider.run(WANDERER, f"url={own}", HACS_PAGES="all", HACS_SHARD="1/2")
    assert hosts.visited() == []


def test_a_page_of_another_shard_is_in_the_plan_of_that(hosts: Site, project: Project) -> None:
    own, other = of_shard(hosts, 0), of_shard(hosts, 1)
    hosts.set("/", Location=f"{other}/home/", status=302)
    hosts.set("/home/", f"{other}/home/below/")
    hosts.set("/home/below/")
    project.crawl([f"{own}/"], HACS_SHARD="0/2")
    assert hosts.visited() == ["/", "/home/"]
    project.crawl("state", "level=homepage", HACS_SHARD="1/2")
    assert hosts.visited() == ["/home/below/"]


def test_what_is_no_page_passes(hosts: Site, tmp_path: Path) -> None:
    own, other = of_shard(hosts, 0), of_shard(hosts, 1)
    hosts.set("/", f"{other}/leaf")
    hosts.set("/leaf")
    crawl = AnySpider(tmp_path, hosts).run(WANDERER, f"url={own}", HACS_SHARD="0/2")
    assert hosts.visited() == ["/", "/leaf"]
    assert crawl.stat("hacs/shard/handed_over") == 0


def test_a_second_crawl_of_a_shard_waits_until_the_first_has_ended(
    site: Site, tmp_path: Path
) -> None:
    site.set("/")
    state = f"sqlite:///{tmp_path}/state.db"
    lock = shard_lock(state, "hacs.0-1", tmp_path)
    assert lock.take() is None
    process = AnySpider(tmp_path, site).start(WANDERER, HACS_PAGES="all", HACS_SHARD="0/1")
    log = read_until(process, "this crawl waits")
    assert site.visited() == []
    lock.release()
    finish(process, log)
    assert site.visited() == ["/"]


def test_a_crawl_goes_on_when_redis_is_back_and_sends_nothing_meanwhile(
    site: Site, tmp_path: Path
) -> None:
    leaves = [f"/{number}" for number in range(100)]
    site.set("/", *leaves)
    for leaf in leaves:
        site.set(leaf)
    options = ("--appendonly", "yes", "--appendfsync", "always")
    with RedisProcess(tmp_path, *options) as server:
        settings = {"HACS_STATE": server.url, "HACS_SHARD": "0/1", "HACS_PAGES": "all"}
        process = AnySpider(tmp_path, site).start(WANDERER, DOWNLOAD_DELAY=0.05, **settings)
        log = read_until(process, "GET", times=10)
        server.kill()
        log += read_until(process, "nothing is sent until the lock is renewed")
        before = len(site.asked)
        server.start()
        assert len(site.asked) <= before + 1  # what was under way
        crawl = finish(process, log)
    assert "The lock of shard 0/1 is renewed: the crawl goes on" in crawl.log
    assert sorted(site.visited()) == sorted(["/", *leaves])
