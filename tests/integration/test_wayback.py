"""`scrapy crawl wayback`: what an archive's captures become.

One archive with a seed for each kind of history is harvested once, and most tests look at what that
left in the state, the feed, the stats and the log.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from hacs_crawler.state import Estimation, Page, State, open_store, shard_of_page
from integration_support import Crawl, Project
from wayback_machine import EXCLUDED, Asked, WaybackMachine
from wayback_support import Bootstrap, months, second

T1, T2, T3, T4, T5 = months(5)
OWN_PAGE = b"<html><a href='http://archive.example/donate'>We are down for maintenance</a></html>"
GARBLED_KINDS = ("blank", "comma", "plain", "packed")
SPELLINGS = [f"http{one}" for one in ("://spelt.edu/~a/", "://www.spelt.edu/~a/index.html")]
SPELLINGS.append("https://spelt.edu:443/~a")


def url_of(name: str) -> str:
    return f"http://{name}.edu/~a/"


def fill(archive: WaybackMachine) -> None:
    url = url_of("unchanged")
    digest = archive.capture(url, T1, "/a")
    archive.revisit(url, T2, of=T1)
    archive.row("edu,unchanged)/~a", T3, url, "text/html", "200", digest, "-")
    archive.row("edu,unchanged)/~a", T4, url, "warc/revisit", "-", "-", "-")
    empty = "3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"
    archive.row("edu,unchanged)/~a", "20100501000000", url, "text/html", "200", empty, "9")
    archive.capture(url, T5, "/a", "/b")

    for name, status, headers in (
        ("archived-429", 429, {"Retry-After": "3600"}),
        ("archived-503", 503, {"Retry-After": "3600"}),
        ("archived-301", 301, {"Location": "http://elsewhere.edu/"}),
    ):
        url = url_of(name)
        archive.capture(url, T1, "/x", status=status, headers=headers)
        archive.row(f"edu,{name})/~a", T1, url, "text/html", "200", "C" * 32, "9")
        archive.capture(url, T2, "/a")
    archive.capture("http://elsewhere.edu/", T1, "/elsewhere")

    url = url_of("redirected")
    for at in (T1, T2, "20100216120000"):
        archive.capture(url, at, f"/{at}")
    archive.unplayable(url, T2)

    for at, kind in zip(months(4), GARBLED_KINDS, strict=True):
        archive.capture(url_of("garbled"), at, f"/{kind}", garbled=kind)

    for name in ("blocked", "excluded", "unread"):
        for at in (T1, T2):
            archive.capture(url_of(name), at, f"/{at}")
    archive.block(url_of("blocked"))
    fail_mementos(archive, url_of("excluded"), EXCLUDED)
    fail_mementos(archive, url_of("unread"), OWN_PAGE)

    for at in months(10):
        archive.capture(url_of("own-page"), at, f"/{at}")
    fail_mementos(archive, f"{list(months(10))[-1]} {url_of('own-page')}", OWN_PAGE)

    archive.capture("http://www.spelt.edu:80/~a", T1, "http://a.org/1")
    archive.capture("https://spelt.edu/~a/", T2, "http://a.org/1", "http://a.org/2")


def fail_mementos(archive: WaybackMachine, of: str, body: bytes) -> None:
    archive.fail(
        "memento", 200, times=math.inf, body=body, only_if=lambda asked: of in asked.memento
    )


@dataclass
class World:
    """An archive, and what was left by harvesting it once."""

    bootstrap: Bootstrap
    seeds: list[str]
    crawl: Crawl
    asked: list[Asked]
    pages: Mapping[str, Page]

    def item(self, name: str) -> dict[str, Any]:
        (item,) = [item for item in self.crawl.items if item["url"] == url_of(name)]
        return item

    def page(self, name: str) -> Page:
        return self.pages[url_of(name)]

    def mementos(self, name: str) -> list[str]:
        mementos = (one.memento.split() for one in self.asked if one.kind == "memento")
        return sorted(at for at, url in mementos if url == url_of(name))


NAMES = [
    *("unchanged", "archived-429", "archived-503", "archived-301", "redirected"),
    *("garbled", "blocked", "excluded", "unread", "own-page", "never-archived"),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("wayback")
    with Bootstrap(Project(folder, f"sqlite:///{folder}/state.db")) as bootstrap:
        fill(bootstrap.archive)
        seeds = [*map(url_of, NAMES), *SPELLINGS]
        crawl = bootstrap.run(seeds)
        asked = bootstrap.forget()
        yield World(bootstrap, seeds, crawl, asked, bootstrap.pages())


def test_it_ends_well(world: World) -> None:
    assert "Unhandled" not in world.crawl.log
    assert world.crawl.stat("hacs/archive/dropped/empty") == 1


def test_what_has_not_changed_is_a_visit_without_a_memento_fetched(world: World) -> None:
    assert world.mementos("unchanged") == [T1, T5]
    page = world.page("unchanged")
    assert list(page.visits) == [second(at) for at in (T1, T2, T3, T4, T5)]
    assert list(page.update_times) == [second(T5)]


@pytest.mark.parametrize("name", ["archived-429", "archived-503", "archived-301"])
def test_an_archived_error_is_no_page_no_reason_to_pause_and_not_asked_for_twice(
    name: str, world: World
) -> None:
    assert world.mementos(name) == [T1, T2]
    assert list(world.page(name).visits) == [second(T2)]
    assert world.crawl.stat("hacs/archive/pauses") == 0
    assert world.crawl.stat("hacs/archive/mementos_failed/status") == 3


def test_a_memento_that_leads_to_another_capture_counts_at_that_ones_time(world: World) -> None:
    assert list(world.page("redirected").visits) == [second(T1), second("20100216120000")]
    assert world.mementos("redirected") == [T1, T2, "20100216120000", "20100216120000"]


def test_mementos_are_read_whatever_their_gzip_headers_say(world: World) -> None:
    page = world.page("garbled")
    assert len(page.visits) == len(page.spells.marks) == len(GARBLED_KINDS)


@pytest.mark.parametrize("name", ["blocked", "excluded"])
def test_a_blocked_seed_is_reported_and_has_no_page(name: str, world: World) -> None:
    assert world.item(name)["status"] == "blocked"
    assert url_of(name) not in world.pages
    assert f"{url_of(name)} is blocked" in world.crawl.log


def test_what_the_archive_says_in_place_of_a_memento_is_no_page(world: World) -> None:
    page = world.page("own-page")
    assert len(page.visits) == len(page.spells.marks) == 9
    assert url_of("unread") not in world.pages
    assert world.item("unread")["status"] == "unread", "a history would have a visit"
    assert world.crawl.stat("hacs/archive/mementos_failed/error") == 3
    assert "2 mementos were not shown (no Memento-Datetime: 2" in world.crawl.log


def test_several_spellings_of_a_homepage_are_one_seed(world: World) -> None:
    asked = Counter(one.params["url"] for one in world.asked if one.kind == "cdx")
    assert [asked[url] for url in SPELLINGS] == [1, 0, 0]
    assert world.crawl.stat("hacs/archive/seeds/second_homepage") == 2


def test_items_tell_what_the_archive_has_of_each_seed(world: World) -> None:
    item = world.item("unchanged")
    first, last = (item.pop(f"{end}_capture").partition("+")[0] for end in ("first", "last"))
    # Scrapy 2.13 writes a space in between, and no zone
    assert first.replace(" ", "T") == "2010-01-15T12:00:00"
    assert last.replace(" ", "T") == "2010-05-15T12:00:00"
    archive = urlsplit(world.bootstrap.archive.url).netloc
    texts = {"type": "history", "status": "history", "url": url_of("unchanged"), "archive": archive}
    numbers = {"pages": 1, "captures": 5, "visits": 5, "mementos": 2, "mementos_saved": 3}
    assert item == {**texts, **numbers, "missed": 0}
    assert len(world.crawl.items) == len(world.seeds) - 2


def test_the_last_line_sums_up_and_names_the_archival_rate(world: World) -> None:
    seeds, none, blocked, unread = len(world.seeds) - 2, 1, 2, 1
    found = seeds - none - blocked - unread
    assert (
        f"asked the archive about {seeds} seeds: {found} have a history, {none} have none, "
        f"{blocked} are blocked (archival rate {100 * found / seeds:.0f} %), "
        f"{unread} have no readable capture"
    ) in world.crawl.log
    assert world.crawl.stat("hacs/archive/seeds") == seeds
    assert world.crawl.stat("hacs/archive/seeds/history") == found
    fetched, saved = (world.crawl.stat(f"hacs/archive/mementos{x}") for x in ("", "_saved"))
    assert saved == sum(item["mementos_saved"] for item in world.crawl.items) > 0
    assert f"{fetched} mementos fetched, {saved} not needed" in world.crawl.log


def test_robots_txt_is_asked_for_once_and_each_seed_once_without_a_filter(world: World) -> None:
    kinds = Counter(one.kind for one in world.asked)
    assert (kinds["other"], kinds["cdx"]) == (1, len(world.seeds) - 2)
    for one in world.asked:
        assert not {"filter", "collapse", "page", "fl"} & set(one.params)
        assert one.kind != "cdx" or {"limit", "showResumeKey"} <= set(one.params)


def test_of_several_shards_each_asks_for_the_histories_of_its_own_pages(
    bootstrap: Bootstrap,
) -> None:
    urls = [f"http://h{number}.edu/" for number in range(9)]
    for url in urls:
        bootstrap.archive.capture(url, T1, "a.html")
    for index in range(3):
        bootstrap.run(urls, "level=homepage", HACS_SHARD=f"{index}/3")
        own = {url for url in urls if shard_of_page(url, 3) == index}
        with closing(open_store(bootstrap.project.state, f"hacs.{index}-3", Path())) as store:
            pages = State(store, Estimation()).pages()
            assert {page.url for page in pages if page is not None} == own


def test_since_and_until_are_seconds_included_and_captures_are_thinned_over_time(
    bootstrap: Bootstrap,
) -> None:
    url = "http://foo.edu/"
    times = list(months(41))
    for at in times:
        bootstrap.archive.capture(url, at, f"/{at}")
    for minute in range(30):
        bootstrap.archive.capture(url, f"201006161200{minute:02}", "/a", f"/{minute}")
    options = ("max_captures=5", f"since={times[4]}", f"until={times[36]}")
    bootstrap.run([url], *options)
    visits = bootstrap.pages()[url].visits
    assert list(visits) == [second(times[index]) for index in (4, 12, 20, 28, 36)]
    assert len(bootstrap.archive.asks("memento")) == 5


def test_seeds_come_from_standard_input_and_from_the_state(bootstrap: Bootstrap) -> None:
    url = "http://foo.edu/"
    bootstrap.archive.capture(url, T1, "/a")
    assert bootstrap.run("-", stdin=f"{url}\n").items[0]["status"] == "history"
    bootstrap.archive.capture(url, T2, "/b")
    bootstrap.forget()
    assert bootstrap.run("state").items[0]["url"] == url
    assert bootstrap.asked() == ["cdx", f"{T2} {url}"]
