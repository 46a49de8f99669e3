"""What updates brought is kept as text, in whole crawls: links with their texts, and items."""

import pytest

from hacs_crawler.links.keys import page_id_of
from hacs_crawler.state import read_findings
from integration_support import AnySpider
from reliability_support import opened
from servers import Site

NEWS = """
    from tests.seeded import Seeded


    class News(Seeded):
        paths = ["/news"]

        def parse(self, response):
            for row in response.css("p"):
                price, title = row.css("b::text").get(), row.css("a::text").get()
                yield {"price": price, "title": title, "url": response.urljoin("/book")}
"""


@pytest.mark.parametrize(
    ("watch", "second", "kept"),
    [
        ("links", "<p><a href=/b>A map</a><b>5</b></p>", ("link", "A map", "/b", "")),
        ("items", "<p><a href=/a>A book</a><b>6</b></p>", ("item", "A book 6", "/book", "price 5")),
    ],
)
def test_what_is_new_is_kept_with_its_text(
    any_spider: AnySpider, site: Site, watch: str, second: str, kept: tuple[str, ...]
) -> None:
    for any_spider.days, body in enumerate(("<p><a href=/a>A book</a><b>5</b></p>", second)):
        site.pages["/news"] = (200, {}, f"<html><body>{body}</body></html>".encode())
        assert any_spider.run(NEWS, HACS_WATCH=watch).exit_status == 0
    page_id = page_id_of(f"{site.url}/news")
    with opened(f"sqlite:///{any_spider.folder}/state.db") as state:
        (thing,) = read_findings(state.store, [page_id])[page_id].things
    assert (thing.kind, thing.text, thing.url.removeprefix(site.url), thing.was) == kept
