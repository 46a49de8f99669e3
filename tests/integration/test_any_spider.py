"""Spiders that know nothing of HACS, in a project that has one line in ADDONS."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from textwrap import dedent
from typing import Any

import pytest
import scrapy

import forks
from hacs_crawler.crawl.ranker import MOST_WAITING
from hacs_crawler.state.page import Visit
from hacs_crawler.utils.times import DAY
from integration_support import QUICK, AnySpider, Crawl, Project, read_until
from servers import Site

ADDONS = 'ADDONS={"hacs_crawler.addon.HacsAddon": 500}'
START_URLS = """
    import scrapy

    class Plain(scrapy.Spider):
        name = "plain"

        def __init__(self, site, number="4", **kwargs):
            super().__init__(**kwargs)
            self.start_urls = [f"{site}/{n}" for n in range(int(number))]

        def parse(self, response):
            self.logger.info("parsed %s", response.url)
"""


class Spider:
    """A spider of the test's own, run with `scrapy runspider` outside any project."""

    def __init__(self, project: Project, site: Site, code: str) -> None:
        self._project = project
        self._site = site
        self._file = project.folder / "spider.py"
        self._file.write_text(dedent(code))

    def arguments(self, *arguments: str, **settings: object) -> list[str]:
        # one at a time: with several in the downloader, their order is not the scheduler's any more
        options = [*QUICK, "CONCURRENT_REQUESTS=1", ADDONS, f"HACS_STATE={self._project.state}"]
        options += [f"{name}={value}" for name, value in settings.items()]
        parts = [part for one in options for part in ("-s", one)]
        site = ("-a", f"site={self._site.url}")
        return ["runspider", str(self._file), *site, *arguments, *parts]

    def run(self, *arguments: str, **settings: object) -> Crawl:
        done = forks.run("scrapy", self.arguments(*arguments, **settings), self._project.folder)
        log = done.stderr.decode()
        assert "Traceback" not in log, log
        return Crawl(done.returncode, log, done.stdout.decode())


@pytest.fixture
def spider(project: Project, site: Site) -> Callable[[str], Spider]:
    for number in range(30):
        site.set(f"/{number}", f"/linked-from-{number}")
    return lambda code: Spider(project, site, code)


@pytest.fixture
def ranked(site: Site, write_state: Callable[..., None]) -> None:
    """Page n of the site has had n updates in ten visits, no bursts, so that 9 is ranked first."""
    start = int(time.time()) - 11 * DAY
    for number in range(10):
        url = f"{site.url}/{number}"
        write_state(
            *(
                Visit(url, start + day * DAY, marks=frozenset(range(day * number // 9)))
                for day in range(10)
            )
        )


def test_what_is_no_page_of_the_web_is_sent_whatever_the_budget(
    spider: Callable[[str], Spider], site: Site
) -> None:
    code = """
        import scrapy

        class Mixed(scrapy.Spider):
            name = "mixed"

            def __init__(self, site, **kwargs):
                super().__init__(**kwargs)
                self.start_urls = ["data:text/html,1", "data:text/html,2", f"{site}/0", f"{site}/1"]

            def parse(self, response):
                self.logger.info("parsed %s", response.url)
    """
    crawl = spider(code).run(HACS_BUDGET=1)
    assert crawl.log.count("parsed data:") == 2
    assert crawl.log.count("parsed http:") == 1
    assert crawl.stat("hacs/visits") == 1


@pytest.mark.skipif(scrapy.version_info < (2, 14), reason="its engine fills the downloader at once")
@pytest.mark.usefixtures("ranked")
def test_follow_up_requests_go_before_start_requests(
    spider: Callable[[str], Spider], site: Site
) -> None:
    code = START_URLS + '            yield from response.follow_all(css="a", callback=self.end)\n\n'
    code += "        def end(self, response):\n            pass\n"
    for number in range(4):
        site.set(f"/linked-from-{number}")
    crawl = spider(code).run()
    visited = site.visited()
    # one seed may leave while the response of the seed before it is still being read
    assert visited.index("/linked-from-3") < visited.index("/1")
    assert visited.index("/linked-from-2") < visited.index("/0")
    assert crawl.stat("hacs/visits") == 4


def test_what_hacs_asks_for_itself_is_no_page_that_closes_a_spider(
    spider: Callable[[str], Spider], site: Site
) -> None:
    for number in range(4):
        site.set(f"/{number}")
    site.pages["/robots.txt"] = (200, {}, f"Sitemap: {site.url}/map.xml\n".encode())
    site.pages["/map.xml"] = (200, {"Content-Type": "text/xml"}, b"<urlset></urlset>")
    settings = {"HACS_SIGNALS": 9, "ROBOTSTXT_OBEY": False, "CLOSESPIDER_PAGECOUNT": 4}
    crawl = spider(START_URLS).run(**settings)
    assert "/map.xml" in site.asked, "which is an answer, too"
    assert crawl.log.count("parsed ") == 4


@pytest.mark.parametrize(
    ("names", "budget"), [(("s/", "s/index.html"), None), (("Item/A", "item/a"), 4)]
)
def test_two_start_urls_are_asked_for_and_called_back_in_each_run(
    names: tuple[str, str], budget: int | None, spider: Callable[[str], Spider], site: Site
) -> None:
    """The first two are one page to HACS, the others differ in case only."""
    code = f"""
        import scrapy

        class Two(scrapy.Spider):
            name = "two"

            def __init__(self, site, **kwargs):
                super().__init__(**kwargs)
                self.start_urls = [f"{{site}}/{{name}}" for name in {names}]

            def parse(self, response):
                self.logger.info("parsed %s", response.url)
    """
    for name in names:
        site.set(f"/{name}", "/x")
    two = spider(code)
    for run in range(3):
        site.set(f"/{names[0]}", "/x", f"/new-{run}")
        crawl = two.run(HACS_BUDGET=budget or "")
        assert crawl.exit_status == 0
        assert sorted(site.visited()) == sorted(f"/{name}" for name in names)
        assert [crawl.log.count(f"parsed {site.url}/{name}\n") for name in names] == [1, 1]
        assert crawl.stat("hacs/visits") == 2


def test_meta_that_a_spider_copies_to_other_requests_does_no_harm(
    spider: Callable[[str], Spider], site: Site, project: Project
) -> None:
    """Of a page that was seen, of an answer that showed nothing, and of a request that failed."""
    code = """
        import scrapy

        class Copying(scrapy.Spider):
            name = "copying"

            async def start(self):
                yield scrapy.Request(f"{self.site}/0")
                yield scrapy.Request(f"{self.site}/file", self.parse_file)
                yield scrapy.Request("http://127.0.0.1:1/0", self.end, errback=self.failed)

            def parse(self, response):
                for link in response.css("a::attr(href)").getall():
                    yield response.follow(link, self.end, meta=response.meta)

            def parse_file(self, response):
                self.logger.info("told nothing: %s", response.meta["hacs"].reason)
                yield scrapy.Request(f"{self.site}/1", self.end, meta=response.meta)

            def failed(self, failure):
                meta = {k: v for k, v in failure.request.meta.items() if k != "download_slot"}
                yield scrapy.Request(f"{self.site}/2", self.end, meta=meta)

            def end(self, response):
                self.logger.info("reached %s", response.url)
    """
    site.set("/linked-from-0", "x")
    site.pages["/file"] = (200, {"Content-Type": "application/pdf"}, b"%PDF-1.4")
    crawl = spider(code).run(JOBDIR=project.folder / "job", RETRY_ENABLED=False)
    assert "told nothing: other_type" in crawl.log
    for path in ("/linked-from-0", "/1", "/2"):
        assert f"reached {site.url}{path}" in crawl.log
    page = project.page(f"{site.url}/0")
    assert page is not None
    assert (len(page.visits), len(page.spells.marks)) == (1, 1)
    assert project.page(f"{site.url}/file") is None
    failed = project.page("http://127.0.0.1:1/0")
    assert failed is None or not failed.visits


FILTERED = """
    import scrapy

    class Filtered(scrapy.Spider):
        name = "filtered"

        async def start(self):
            for number in range(int(self.number)):
                yield scrapy.Request(f"{self.site}/{number}")

        def parse(self, response):
            self.logger.info("parsed %s", response.url)
"""


@pytest.mark.usefixtures("ranked")
def test_with_jobdir_a_stopped_crawl_goes_on_where_it_was(
    spider: Callable[[str], Spider], site: Site, project: Project
) -> None:
    job = {"JOBDIR": project.folder / "job", "DOWNLOAD_DELAY": 0.3, "LOG_LEVEL": "DEBUG"}
    one = spider(FILTERED)
    process = forks.start("scrapy", one.arguments("-a", "number=10", **job), project.folder)
    read_until(process, "parsed")
    process.send_signal(signal.SIGTERM)
    process.communicate()
    before = site.visited()
    crawl = one.run("-a", "number=10", **job)
    after = site.visited()
    assert before[0] == "/9"
    assert len(before) < 10
    assert before + after == [f"/{number}" for number in range(9, -1, -1)]
    assert "'finish_reason': 'finished'" in crawl.log


@pytest.mark.usefixtures("ranked")
@pytest.mark.parametrize(
    ("settings", "visited"),
    [
        ({}, 11),
        ({"HACS_BUDGET": 7}, 7),
        ({"HACS_BUDGET": 8, "HACS_DISCOVER": 0.5}, 8),
    ],
    ids=str,
)
def test_with_jobdir_what_callbacks_asked_for_goes_on_too_best_first_and_within_the_budget(
    spider: Callable[[str], Spider],
    site: Site,
    project: Project,
    settings: dict[str, Any],
    visited: int,
) -> None:
    code = """
        import scrapy

        class Following(scrapy.Spider):
            name = "following"

            async def start(self):
                yield scrapy.Request(f"{self.site}/20")

            def parse(self, response):
                if response.url.endswith("/20"):
                    for number in range(10):
                        yield scrapy.Request(f"{self.site}/{number}")
    """
    settings = {"HACS_PAGES": "all", "HACS_CONTROLS": 0, "HACS_POLICY": "hacs", **settings}
    settings |= {"JOBDIR": project.folder / "job"}
    one = spider(code)
    stopped = one.run(CLOSESPIDER_PAGECOUNT=4, **settings)
    assert "'finish_reason': 'closespider_pagecount'" in stopped.log
    before = site.visited()
    assert before[:4] == ["/20", "/9", "/8", "/7"]
    resumed = one.run(**settings)
    expected = ["/20", *(f"/{number}" for number in range(9, -1, -1))]
    assert before + site.visited() == expected[:visited]
    dropped = [crawl.stat("hacs/dropped/budget") for crawl in (stopped, resumed)]
    assert sum(dropped) == len(expected) - visited
    assert "'finish_reason': 'finished'" in resumed.log


def test_ones_own_policy_ranks(
    spider: Callable[[str], Spider], site: Site, project: Project
) -> None:
    (project.folder / "mine.py").write_text(
        "def policy(candidates):\n    return candidates.page_ids * 0.0 + range(len(candidates.p))\n"
    )
    crawl = spider("import sys; sys.path.insert(0, '.')\n" + dedent(START_URLS)).run(
        HACS_POLICY="mine.policy"
    )
    assert crawl.exit_status == 0
    assert site.visited() == ["/3", "/2", "/1", "/0"]


def test_a_project_with_a_scheduler_of_its_own_is_told_and_still_recorded(
    spider: Callable[[str], Spider], site: Site
) -> None:
    crawl = spider(START_URLS).run(SCHEDULER="scrapy.core.scheduler.Scheduler")
    assert "SCHEDULER is set to scrapy.core.scheduler.Scheduler" in crawl.log
    assert "HACS_INNER_SCHEDULER" in crawl.log
    assert crawl.stat("hacs/visits") == 4
    assert len(site.visited()) == 4


@pytest.mark.parametrize(
    ("setting", "name", "said"),
    [
        ("DUPEFILTER_CLASS", "Broken", "KeyError: 'oops'"),
        ("SCHEDULER_PRIORITY_QUEUE", "Missing", "NameError: Module 'any_spider'"),
    ],
)
def test_a_class_of_the_project_that_cannot_be_made_is_shown_by_one_traceback(
    setting: str, name: str, said: str, any_spider: AnySpider
) -> None:
    code = dedent(START_URLS) + "\n\nclass Broken:\n    def __init__(self): {}['oops']\n"
    crawl = any_spider.run(code, "-a", "site=http://127.0.0.1", **{setting: f"any_spider.{name}"})
    assert crawl.exit_status == 1
    # Scrapy 2.13 raises it while it handles another one, whose traceback stands above
    others = crawl.log.count("another exception occurred")
    assert crawl.log.count("Traceback") - others == 1
    assert f"ERROR: the crawl cannot start: {said}" in crawl.log
    assert "HACS_INNER_SCHEDULER" not in crawl.log


def test_a_middleware_that_is_switched_off_is_pointed_out(
    spider: Callable[[str], Spider], site: Site
) -> None:
    name = "hacs_crawler.middlewares.downloads.PageMemoryMiddleware"
    crawl = spider(START_URLS).run(DOWNLOADER_MIDDLEWARES=f'{{"{name}": null}}')
    assert "DOWNLOADER_MIDDLEWARES switches PageMemoryMiddleware off" in crawl.log


@pytest.mark.usefixtures("ranked")
def test_start_urls_are_ranked_on_a_reactor_that_is_not_asyncios(
    spider: Callable[[str], Spider], site: Site
) -> None:
    crawl = spider(START_URLS).run(TWISTED_REACTOR="twisted.internet.selectreactor.SelectReactor")
    assert crawl.exit_status == 0
    assert site.visited() == ["/3", "/2", "/1", "/0"]
    assert crawl.stat("hacs/visits") == 4


def test_a_plan_becomes_requests_as_it_is_used_up_and_a_crawl_that_fails_ends_though_it_is_long(
    spider: Callable[[str], Spider], site: Site, write_state: Callable[..., None]
) -> None:
    known = 2 * MOST_WAITING
    write_state(
        *(
            Visit(f"{site.url}/{number}", 1_700_000_000, marks=frozenset())
            for number in range(known)
        )
    )
    crawl = spider("""
        import scrapy
        from hacs_crawler.crawl.seeds import planned_seeds
        from hacs_crawler.crawl.crawl import Crawl

        class Planned(scrapy.Spider):
            name = "planned"
            handle_httpstatus_list = [404]

            async def start(self):
                self.number = 0
                async for url, meta in planned_seeds(Crawl.of(self.crawler)):
                    self.number += 1
                    yield scrapy.Request(url, meta=meta)

            def parse(self, response):
                self.logger.info("made %d requests so far", self.number)
                Crawl.of(self.crawler).fail("broken on purpose")
    """).run()
    made = int(crawl.log.partition("made ")[2].partition(" ")[0])
    assert MOST_WAITING <= made < known
    assert crawl.stat("hacs/ranked") == known
    assert crawl.exit_status == 1
    assert "broken on purpose" in crawl.log
