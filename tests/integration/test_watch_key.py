"""Items that are shown apart by a field: what changed of which, and which fields are no news at all."""

from integration_support import AnySpider, Crawl
from servers import Site

PLAIN = """
    from tests.seeded import Seeded

    class Jobs(Seeded):
        paths = ["/jobs"]
        shown = []

        def visited(self, page, outcome):
            for item in self.shown:
                shown = (item["job"], outcome.status(item), outcome.before(item))
                self.logger.info("%s is %s, was %s", *shown)

        def item(self, response, text):
            job, _, views = text.partition(" ")
            item = {"job": job[0], "pay": len(job) / 2, "views": views}
            self.shown.append(item)
            return item

        def parse(self, response):
            for text in response.css("p::text").getall():
                yield self.item(response, text)
"""


def crawl(any_spider: AnySpider, site: Site, code: str, *jobs: str, **settings: object) -> Crawl:
    """A day's crawl of a board of jobs: a letter for each, one more for each unit of pay, and views."""
    site.set("/", "/jobs")
    body = "".join(f"<p>{job}</p>" for job in jobs)
    site.pages["/jobs"] = (200, {}, f"<html><body>{body}</body></html>".encode())
    given = {"HACS_WATCH": "items", "HACS_WATCH_KEY": "job", **settings}
    return any_spider.run(code, **given)


def test_an_item_is_new_or_the_same_or_has_changed_from_what_it_was(
    any_spider: AnySpider, site: Site
) -> None:
    shown = ("A", "B 2"), ("A", "BB 7", "C"), ("AA", "BB"), ("AA", "BB", "C")
    first, then, again, back = (crawl(any_spider, site, PLAIN, *jobs) for jobs in shown)
    assert "A is same, was None" in first.log
    changed = "B is changed, was {'job': 'B', 'pay': 0.5, 'views': '2'}"
    assert all(said in then.log for said in ("A is same", changed, "C is new, was None"))
    assert all(said in again.log for said in ("A is changed", "B is changed"))
    assert "C is new" in back.log
    assert [one.stat("hacs/updates") for one in (first, then, again, back)] == [0, 1, 1, 1]
    unnamed = {"HACS_WATCH_KEY": "id", "HACS_NAMESPACE": "unnamed"}
    alone = [crawl(any_spider, site, PLAIN, job, **unnamed) for job in ("B 2", "BB 3")][1]
    assert "B is new, was {'job': 'B', 'pay': 0.5, 'views': '2'}" in alone.log


def test_in_the_callback_is_told_what_was_known_and_predicted(
    any_spider: AnySpider, site: Site
) -> None:
    asking = PLAIN.replace(
        "            for text",
        """            known = response.meta["hacs"]
            shown = (known["is_first"], known["days_since_visit"], known["last_update"], known["p"])
            self.logger.info("known: first %s, %.1f days, %s, p %.2f", *shown)
            for text""",
    )
    followed = asking.replace(
        "        def parse(",
        """        custom_settings = {"HACS_PAGES": ["/jobs"]}

        async def start(self):
            import scrapy
            yield scrapy.Request(self.start_urls[0].replace("/jobs", "/"), callback=self.follow)

        def follow(self, response):
            yield response.follow("/jobs", callback=self.parse)

        def parse(""",
    )
    first = crawl(any_spider, site, asking, "A", HACS_NAMESPACE="asking")
    assert "known: first True, inf days, None, p 1.00" in first.log
    days = [crawl(any_spider, site, followed, job) for job in ("A", "B", "B")]
    assert "known: first False, 1.0 days, 20" in days[2].log
    assert days[2].stat("hacs/visits") == 1
