"""HACS_CONDITIONAL_REQUESTS = "auto": hosts are asked so until a control visit shows a wrong answer."""

from integration_support import AnySpider, Crawl, Project
from servers import Site


def crawl(project: Project, site: Site, **settings: object) -> Crawl:
    site.visited()
    settings = {"HACS_BUDGET": 4, "HACS_CONTROLS": 0.5, **settings}
    return project.crawl(
        [f"{site.url}/~a/"], "-a", "level=homepage", HACS_CONDITIONAL_REQUESTS="auto", **settings
    )


def conditions(site: Site) -> list[bool]:
    """Of each request for a page whether it had a condition."""
    asked = zip(site.headers, site.asked, strict=True)
    return ["if-none-match" in headers for headers, path in asked if path == "/~a/"]


def test_a_304_that_a_control_visit_contradicts_was_the_last_one(
    site: Site, project: Project
) -> None:
    site.set("/~a/", "x.pdf", ETag='"always"')
    crawl(project, site)
    site.set("/~a/", "x.pdf", "y.pdf", ETag='"always"')
    second = crawl(project, site)
    assert conditions(site) == [True, False]
    assert second.stat("hacs/controls/contradicted") == 1
    assert "/~a/, which had new links" in second.log
    third = crawl(project, site)
    assert conditions(site) == [False]
    assert third.stat("downloader/response_status_count/304") == 0


LISTING = """
    from tests.seeded import Seeded


    class Listing(Seeded):
        paths = ["/list"]

        def parse(self, response):
            yield from response.follow_all(css="a", callback=self.parse_item)

        def parse_item(self, response):
            yield {"url": response.url}
"""


def test_a_page_that_only_leads_to_others_gets_no_condition(
    site: Site, any_spider: AnySpider
) -> None:
    site.set("/list", "item", ETag='"list"')
    site.set("/item", "x.pdf", ETag='"item"')
    for _ in range(2):
        site.visited()
        any_spider.days += 1
        any_spider.run(LISTING, HACS_PAGES="all", HACS_CONDITIONAL_REQUESTS=True)
    asked = zip(site.asked, site.headers, strict=True)
    conditional = {path for path, headers in asked if "if-none-match" in headers}
    assert conditional == {"/item"}
