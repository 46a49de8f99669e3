"""What updates brought is kept as text, in whole crawls: links with their texts, and what is watched."""

from __future__ import annotations

from pathlib import Path

from hacs_crawler.links.keys import page_id_of
from hacs_crawler.state import read_findings
from hacs_crawler.state.address import open_store
from integration_support import AnySpider
from servers import Site

SPIDER = """
    import scrapy


    class News(scrapy.Spider):
        name = "news"

        def __init__(self, url, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.start_urls = [url + "/news"]
"""


def show(site: Site, *things: str) -> None:
    body = "".join(f"<p><a href=/{thing}>The {thing}</a></p>" for thing in things)
    site.pages["/news"] = (200, {}, f"<html><body>{body}</body></html>".encode())


def found(any_spider: AnySpider, site: Site, **settings: object) -> list[tuple[str, ...]]:
    """What is kept after each of four days: the first, an update, none, and one of 30 links."""
    kept = []
    days = (["a"], ["a", "b"], ["b", "a"], ["a", *(f"c{number}" for number in range(30))])
    for day, things in enumerate(days):
        show(site, *things)
        any_spider.days = day
        crawl = any_spider.run(SPIDER, **settings)
        assert crawl.exit_status == 0, crawl.log
        store = open_store(f"sqlite:///{any_spider.folder}/state.db", "hacs", Path())
        page_id = page_id_of(f"{site.url}/news")
        findings = read_findings(store, [page_id]).get(page_id)
        kept.append(findings.things if findings else ())
        store.close()
    return kept


def test_new_links_of_the_last_update_are_kept_with_their_texts(
    any_spider: AnySpider, site: Site
) -> None:
    first, second, third, fourth = found(any_spider, site)
    assert first == ()
    assert second == third == (f"The b {site.url}/b",)
    assert fourth == tuple(f"The c{number} {site.url}/c{number}" for number in range(20))


def test_of_what_else_is_watched_the_texts_are_kept(any_spider: AnySpider, site: Site) -> None:
    kept = found(any_spider, site, HACS_WATCH="css:p", HACS_FINDINGS=3)
    assert kept == [(), ("The b",), ("The b",), ("The c0", "The c1", "The c2")]


def test_nothing_is_kept_where_nothing_is_to_be(any_spider: AnySpider, site: Site) -> None:
    assert found(any_spider, site, HACS_FINDINGS=0) == [()] * 4
