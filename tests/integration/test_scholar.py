"""`scrapy crawl scholar`, run as a user runs it, on a real local site."""

from __future__ import annotations

import gzip
import sqlite3
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hacs_crawler.links.canonical import canonical_link
from hacs_crawler.links.keys import link_fingerprint
from hacs_crawler.state.page import Page, Visit
from hacs_crawler.utils.times import DAY
from integration_support import AnySpider, Project
from servers import Site

TEN_DAYS_AGO = int(time.time()) - 10 * DAY

# with several requests in the downloader their order is not the scheduler's any more
ONE_AT_A_TIME = {"CONCURRENT_REQUESTS": 1}


def history(url: str, links: list[str], updates: int, visits: int = 10) -> list[Visit]:
    """Visits a day apart, `updates` of which found a link, all of `links` shown by the last."""
    prints = [link_fingerprint(str(canonical_link(url, link))) for link in links]
    return [
        Visit(url, TEN_DAYS_AGO + day * DAY, marks=frozenset([*prints, *range(min(day, updates))]))
        for day in range(visits)
    ]


def test_a_site_is_followed_however_its_homepage_is_spelled(site: Site, project: Project) -> None:
    for home in ("/~ada/", "/%7Eada/"):
        site.set(home, "pubs/")
    for page in ("/~ada/pubs/", "/%7Eada/pubs/"):
        site.set(page, "x.pdf")
    assert project.crawl([f"{site.url}/%7Eada/"]).stat("hacs/visits") == 2


def test_the_first_crawl_visits_every_homepage_and_its_site(site: Site, project: Project) -> None:
    site.set("/~ada/", "pubs/", "/~bob/", "http://127.0.0.1:1/elsewhere")
    site.set("/~ada/pubs/", "deep/er.html")
    site.set("/~ada/pubs/deep/er.html", "too-deep.html")
    crawl = project.crawl([f"{site.url}/~ada/"])
    assert crawl.exit_status == 0
    assert site.visited() == ["/~ada/", "/~ada/pubs/", "/~ada/pubs/deep/er.html"]
    assert (crawl.stat("hacs/visits"), crawl.stat("hacs/first_visits")) == (3, 3)
    assert crawl.stat("hacs/updates") == 0


def test_depth_counts_links_or_levels_of_the_path(site: Site, project: Project) -> None:
    site.set("/~ada/", "a/b/c.html", "news.html")
    site.set("/~ada/a/b/c.html")
    site.set("/~ada/news.html", "2.html")
    site.set("/~ada/2.html", "3.html")
    site.set("/~ada/3.html", "x/4.html")
    site.set("/~ada/x/4.html")
    project.crawl([f"{site.url}/~ada/"], "-a", "depth=path")
    near = ["/~ada/", "/~ada/2.html", "/~ada/3.html", "/~ada/news.html", "/~ada/x/4.html"]
    assert sorted(site.visited()) == near


@pytest.mark.parametrize("seeds", ["state", ["http://127.0.0.1:1/"]])
def test_a_wrong_setting_is_one_line_and_no_traceback(
    seeds: str | list[str], project: Project
) -> None:
    crawl = project.crawl(seeds, HACS_FADE_DAYS=0)
    assert crawl.exit_status == 1
    assert crawl.log.count("HACS_FADE_DAYS = '0': allowed is a number above 0") == 1
    assert "Traceback" not in crawl.log


@pytest.mark.parametrize("seeds", ["state", ["http://127.0.0.1:1/"]])
def test_whatever_keeps_seeds_from_being_ranked_is_one_line_and_status_1(
    seeds: str | list[str], site: Site, project: Project
) -> None:
    site.set("/~ada/")
    project.crawl([f"{site.url}/~ada/"])
    crawl = project.crawl(seeds, HACS_POLICY="json.loads")
    assert crawl.exit_status == 1
    assert crawl.log.count("TypeError: the JSON object must be") == 1
    assert "Traceback" not in crawl.log


def test_an_unknown_depth_is_named(project: Project) -> None:
    crawl = project.crawl(["http://127.0.0.1:1/"], "-a", "depth=3")
    assert crawl.exit_status == 1
    assert "depth = '3': allowed is links or path" in crawl.log


def test_at_homepage_level_it_stays_on_the_homepages(site: Site, project: Project) -> None:
    site.set("/~ada/", "pubs/")
    project.crawl([f"{site.url}/~ada/"], "-a", "level=homepage")
    assert site.visited() == ["/~ada/"]


def test_the_second_crawl_goes_first_where_links_are_likely(
    site: Site, project: Project, write_state: Callable[..., None]
) -> None:
    for name, updates in (("slow", 0), ("fast", 9), ("medium", 3)):
        site.set(f"/~{name}/")
        write_state(*history(f"{site.url}/~{name}/", [], updates))
    seeds = [f"{site.url}/~{name}/" for name in ("slow", "fast", "medium", "unseen")]
    site.set("/~unseen/")
    project.crawl(seeds, **ONE_AT_A_TIME)
    assert site.visited() == ["/~unseen/", "/~fast/", "/~medium/", "/~slow/"]


def test_a_link_that_comes_up_on_two_pages_of_a_site_is_new_to_the_site_once(
    site: Site, project: Project
) -> None:
    pages = ("/~ada/", "/~ada/papers.html")
    seeds = [f"{site.url}{page}" for page in pages]
    for page in pages:
        site.set(page, "/~ada/old.html")
    by_site = {"HACS_UPDATES": "site"}
    project.crawl(seeds, **by_site)
    for page in pages:
        site.set(page, "/~ada/old.html", "/~ada/menu.html")
    site.set(pages[1], "/~ada/old.html", "/~ada/menu.html")
    crawl = project.crawl(seeds, "-a", "pages=1", CONCURRENT_REQUESTS=1, **by_site)
    visits = [one for one in crawl.items if one["type"] == "page"]
    assert [one["new_links"] for one in visits] == [1, 1]
    assert [one["new_to_site"] for one in visits] == [1, 0]
    assert (crawl.stat("hacs/updates"), crawl.stat("hacs/site_updates")) == (2, 1)
    assert (crawl.stat("hacs/new_links"), crawl.stat("hacs/links_new_to_site")) == (2, 1)
    echoes = [list(project.page(seed).echoes) for seed in seeds]
    assert sorted(map(len, echoes)) == [0, 1]


def test_new_links_are_found_reported_and_not_found_again(site: Site, project: Project) -> None:
    site.set("/~ada/", "old.pdf")
    seeds = [f"{site.url}/~ada/"]
    assert project.crawl(seeds, "-a", "pages=1").items[0]["is_first"] is True
    site.set("/~ada/", "old.pdf", "new.pdf", "https://doi.org/10.1000/182", "/cv.html")
    crawl = project.crawl(seeds, "-a", "pages=1")
    page, *publications = crawl.items
    assert (page["is_update"], page["new_links"], page["type"]) == (True, 3, "page")
    assert page["last_update"] == page["visited_at"]
    assert 0 <= page["p"] < 0.01
    assert [(one["url"], one["title"]) for one in publications] == [
        (f"{site.url}/~ada/new.pdf", "about new.pdf"),
        ("https://doi.org/10.1000/182", "about https://doi.org/10.1000/182"),
    ]
    assert (crawl.stat("hacs/updates"), crawl.stat("hacs/new_links")) == (1, 3)
    assert project.crawl(seeds).items == []


def test_the_closing_line_compares_what_was_predicted_with_what_was_found(
    site: Site, project: Project, write_state: Callable[..., None]
) -> None:
    site.set("/~a/", "x.html")
    write_state(*history(f"{site.url}/~a/", [], 9))
    crawl = project.crawl([f"{site.url}/~a/"], "-a", "level=homepage")
    assert "of 1 ranked page known before, 1 had an update and 0.8 were predicted" in crawl.log


def test_a_budget_limits_the_seeds_and_says_so(
    site: Site, project: Project, write_state: Callable[..., None]
) -> None:
    for number in range(6):
        site.set(f"/~{number}/")
        write_state(*history(f"{site.url}/~{number}/", [], number))
    crawl = project.crawl([f"{site.url}/~{n}/" for n in range(6)], HACS_BUDGET=2, **ONE_AT_A_TIME)
    assert site.visited() == ["/~5/", "/~4/"]
    assert crawl.stat("hacs/dropped/budget") == 4


def test_a_threshold_leaves_out_what_is_unlikely(
    site: Site, project: Project, write_state: Callable[..., None]
) -> None:
    site.set("/~a/")
    write_state(Visit(f"{site.url}/~a/", int(time.time()) - 60, marks=frozenset()))
    crawl = project.crawl([f"{site.url}/~a/"], HACS_THRESHOLD=0.5)
    assert site.visited() == []
    assert crawl.exit_status == 0
    assert crawl.stat("hacs/dropped/threshold") == 1


def test_seeds_can_be_every_page_that_the_state_knows(
    site: Site, project: Project, write_state: Callable[..., None]
) -> None:
    site.set("/~a/")
    write_state(*history(f"{site.url}/~a/", [], 3))
    crawl = project.crawl("state")
    assert crawl.exit_status == 0
    assert site.visited() == ["/~a/"]


def test_seeds_are_read_from_gz_and_from_standard_input(site: Site, project: Project) -> None:
    site.set("/~a/")
    file = project.folder / "seeds.gz"
    file.write_bytes(gzip.compress(f"# seeds\n\n{site.url}/~a/\n".encode()))
    assert project.crawl(str(file)).exit_status == 0
    done = project.run("crawl", "scholar", "-a", "seeds=-", stdin=f"{site.url}/~a/\n")
    assert done.exit_status == 0
    assert site.visited() == ["/~a/", "/~a/"]


def test_a_malformed_seed_is_named_and_the_others_are_visited(site: Site, project: Project) -> None:
    site.set("/~a/")
    crawl = project.crawl(["ftp://x/", "rubbish", f"{site.url}/~a/"])
    assert crawl.exit_status == 0
    assert "seeds.txt, line 1" in crawl.log
    assert "seeds.txt, line 2" in crawl.log
    assert site.visited() == ["/~a/"]


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        ("", "scholar needs seeds"),
        ("/no/such/file", "/no/such/file"),
        ("/dev/null", "there is no usable seed"),
        ("state", "the state knows no page yet"),
    ],
)
def test_no_usable_seed_is_an_error(seeds: str, message: str, project: Project) -> None:
    crawl = project.crawl(seeds)
    assert crawl.exit_status == 1
    assert message in crawl.log
    assert "Traceback" not in crawl.log
    assert "'finish_reason': 'hacs_error'" in crawl.log


def test_an_unknown_level_is_named(project: Project) -> None:
    crawl = project.crawl(["http://127.0.0.1:1/"], "-a", "level=all")
    assert crawl.exit_status == 1
    assert "level = 'all': allowed is website or homepage" in crawl.log


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"HACS_POLICY": "best"}, "HACS_POLICY = 'best': allowed is hacs"),
        ({"HACS_THRESHOLD": "2"}, "HACS_THRESHOLD = '2': allowed is"),
        ({"HACS_STATE": "mysql://x"}, "HACS_STATE"),
        ({"HACS_STATE": "redis://127.0.0.1:1/0"}, "redis://127.0.0.1:1/0"),
        ({"HACS_STATE": "sqlite:////proc/nope/state.db"}, "/proc/nope/state.db"),
        ({"HACS_INNER_SCHEDULER": "no.such.Thing"}, "HACS_INNER_SCHEDULER = 'no.such.Thing'"),
        ({"HACS_INNER_SCHEDULER": "os.path.join"}, "HACS_INNER_SCHEDULER = 'os.path.join'"),
        (
            {"HACS_INNER_SCHEDULER": "hacs_crawler.crawl.scheduler.HacsScheduler"},
            "HACS_INNER_SCHEDULER = 'hacs_crawler.crawl.scheduler.HacsScheduler'",
        ),
        ({"HACS_STATE": "redis+cluster://127.0.0.1:1"}, "redis+cluster://127.0.0.1:1"),
        ({"HACS_STATE": "redis://127.0.0.1:1/0?no_such_option=1"}, "redis://127.0.0.1:1/0"),
        ({"HACS_POLICY": "numpy.linalg.norm"}, "policy 'numpy.linalg.norm' failed"),
    ],
)
def test_what_cannot_work_stops_the_crawl_before_its_first_request(
    settings: dict[str, str], message: str, site: Site, project: Project
) -> None:
    site.set("/~a/")
    crawl = project.crawl([f"{site.url}/~a/"], **settings)
    assert crawl.exit_status == 1
    errors = [line for line in crawl.log.splitlines() if " ERROR: " in line]
    assert len(errors) == 1
    assert message in errors[0]
    assert "Traceback" not in crawl.log
    assert site.asked == []


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("INSERT INTO 'hacs.meta' VALUES ('prior', '{bad')", "state.db"),
        ("""INSERT INTO 'hacs.meta' VALUES ('prior', '{"x": 1}')""", "the note 'prior'"),
    ],
)
def test_a_damaged_state_is_named_before_the_first_request(
    damage: str, message: str, site: Site, project: Project, write_state: Callable[..., None]
) -> None:
    site.set("/~a/")
    write_state(*history(f"{site.url}/~a/", [], 2))
    with sqlite3.connect(project.state.removeprefix("sqlite:///")) as db:
        db.execute(damage)
    db.close()
    crawl = project.crawl([f"{site.url}/~a/"])
    assert crawl.exit_status == 1
    assert message in crawl.log
    assert "Traceback" not in crawl.log
    assert site.asked == []


def test_a_setting_that_nothing_reads_is_pointed_out(site: Site, project: Project) -> None:
    site.set("/~a/")
    crawl = project.crawl([f"{site.url}/~a/"], HACS_BUGDET=3)
    assert "HACS_BUGDET is not a setting of hacs-crawler; did you mean HACS_BUDGET?" in crawl.log


def test_robots_txt_is_obeyed_and_counted(site: Site, project: Project) -> None:
    site.set("/~a/")
    site.pages["/robots.txt"] = (200, {"Content-Type": "text/plain"}, b"User-agent: *\nDisallow: /")
    crawl = project.crawl([f"{site.url}/~a/"])
    assert site.visited() == []
    assert crawl.stat("hacs/not_observed/refused") == 1


def test_a_gone_page_is_marked_and_with_a_budget_left_alone_for_a_while(
    site: Site, project: Project
) -> None:
    seeds = [f"{site.url}/~gone/"]
    assert project.crawl(seeds).stat("hacs/gone") == 1
    assert site.visited() == ["/~gone/"]
    crawl = project.crawl(seeds, HACS_BUDGET=1)
    assert site.visited() == []
    assert crawl.stat("hacs/dropped/gone") == 1


def test_without_a_budget_a_gone_page_comes_last(site: Site, project: Project) -> None:
    site.set("/~a/")
    seeds = [f"{site.url}/~gone/", f"{site.url}/~a/"]
    project.crawl(seeds)
    site.visited()
    # one at a time: else what need not be read from the state may overtake what must
    crawl = project.crawl(seeds, CONCURRENT_REQUESTS=1)
    assert site.visited() == ["/~a/", "/~gone/"]
    assert crawl.stat("hacs/dropped/gone") == 0


def test_conditional_requests_save_the_body_and_count_as_visits(
    site: Site, project: Project
) -> None:
    site.set("/~a/", "x.pdf", ETag='"one"')
    seeds = [f"{site.url}/~a/"]
    project.crawl(seeds, HACS_CONDITIONAL_REQUESTS=True)
    site.visited()
    crawl = project.crawl(seeds, "-a", "pages=1", HACS_CONDITIONAL_REQUESTS=True)
    assert crawl.stat("downloader/response_status_count/304") == 1
    assert crawl.items[0]["is_update"] is False
    page = project.page(seeds[0])
    assert page is not None
    assert len(page.visits) == 2


def test_a_redirected_seed_stays_the_seeds_page(site: Site, project: Project) -> None:
    site.pages["/~old/"] = (302, {"Location": "/~new/"}, b"")
    site.set("/~new/", "x.pdf")
    project.crawl([f"{site.url}/~old/"])
    assert site.visited() == ["/~old/", "/~new/"]
    page = project.page(f"{site.url}/~old/")
    assert page is not None
    assert (len(page.visits), len(page.marks)) == (1, 1)
    assert project.page(f"{site.url}/~new/") is None


def test_seeds_that_lead_to_the_same_place_are_visits_of_their_own_pages(
    site: Site, project: Project
) -> None:
    site.set("/same/", "x.pdf")
    for number in range(3):
        site.pages[f"/{number}/"] = (302, {"Location": "/same/"}, b"")
    crawl = project.crawl([f"{site.url}/{number}/" for number in range(3)])
    assert crawl.stat("hacs/visits") == 3
    assert all(project.page(f"{site.url}/{number}/") is not None for number in range(3))


def test_seeds_that_lead_to_a_place_that_fails_are_each_counted(
    site: Site, project: Project
) -> None:
    site.set("/same/", status=500)
    for number in range(3):
        site.pages[f"/{number}/"] = (302, {"Location": "/same/"}, b"")
    urls = [f"{site.url}/{number}/" for number in range(3)]
    crawl = project.crawl(urls, RETRY_ENABLED=False)
    assert crawl.stat("hacs/not_observed") == 3


def test_a_redirect_without_end_is_no_observation(site: Site, project: Project) -> None:
    site.pages["/there/"] = (302, {"Location": "/back/"}, b"")
    site.pages["/back/"] = (302, {"Location": "/there/"}, b"")
    crawl = project.crawl([f"{site.url}/there/"], REDIRECT_MAX_TIMES=3)
    assert crawl.stat("hacs/not_observed/unfinished") == 1
    page = project.page(f"{site.url}/there/")
    assert page is not None
    assert page.failures == 1


def test_what_shows_no_links_is_no_observation(site: Site, project: Project) -> None:
    """Each case by itself: tests/crawl/test_observation.py."""
    rubbish = bytes(range(256)) * 20
    site.pages |= {
        "/binary-as-html": (200, {}, rubbish),
        "/error": (500, {}, b"<a href=x>x</a>"),
        "/binary": (200, {"Content-Type": "application/octet-stream"}, rubbish),
        "/pdf": (200, {"Content-Type": "application/pdf"}, b"%PDF-1.4"),
        "/empty": (200, {}, b""),
    }
    crawl = project.crawl([f"{site.url}{path}" for path in site.pages], RETRY_ENABLED=False)
    assert crawl.exit_status == 0
    for reason, number in {"unreadable": 1, "status": 1, "other_type": 2, "empty": 1}.items():
        assert crawl.stat(f"hacs/not_observed/{reason}") == number
    assert crawl.stat("hacs/visits") == 0
    assert "Traceback" not in crawl.log


def test_a_frameset_is_a_page_whose_frames_are_its_links(site: Site, project: Project) -> None:
    def show(*frames: str) -> None:
        inside = "".join(f'<frame src="{frame}">' for frame in frames)
        site.pages["/~ada/"] = (200, {}, f"<html><frameset>{inside}</frameset></html>".encode())

    show("menu.html", "news.html")
    first = project.crawl([f"{site.url}/~ada/"], "-a", "level=homepage")
    show("menu.html", "news.html", "papers.html")
    second = project.crawl([f"{site.url}/~ada/"], "-a", "level=homepage")
    assert [crawl.stat("hacs/visits") for crawl in (first, second)] == [1, 1]
    assert [crawl.stat("hacs/updates") for crawl in (first, second)] == [0, 1]


def test_broken_html_does_not_stop_a_crawl(site: Site, project: Project) -> None:
    """Other kinds of it: tests/crawl/test_observation.py."""
    site.pages["/undecodable"] = (
        200,
        {},
        b"<html><a href='\xff\xfe\x00x.html'>\xff</a><a href=http://[>",
    )
    site.pages["/deep"] = (200, {}, b"<p>" * 3000 + b"<a href=deep.html>deep</a>")
    site.set("/fine")
    urls = [f"{site.url}{path}" for path in site.pages]
    crawl = project.crawl(urls, "-a", "level=homepage")
    assert crawl.exit_status == 0
    assert "Traceback" not in crawl.log
    assert crawl.stat("hacs/visits") + crawl.stat("hacs/not_observed") == 3


def test_a_host_that_asks_to_be_left_alone_is(site: Site, project: Project) -> None:
    site.pages["/~a/"] = (429, {"Retry-After": "3600"}, b"slow down")
    site.set("/~b/")
    crawl = project.crawl([f"{site.url}/~a/", f"{site.url}/~b/"], DOWNLOAD_DELAY=0.2)
    assert site.visited() == ["/~a/"]
    assert crawl.stat("hacs/not_observed/refused") == 2
    assert "left alone for 3600 s" in crawl.log
    assert "Traceback" not in crawl.log


def test_a_host_that_asks_for_a_moment_is_asked_again_after_it(
    site: Site, project: Project
) -> None:
    site.pages["/~a/"] = (429, {"Retry-After": "1"}, b"slow down")
    site.set("/~b/")
    started = time.monotonic()
    crawl = project.crawl([f"{site.url}/~a/", f"{site.url}/~b/"], RETRY_TIMES=1, DOWNLOAD_DELAY=0.2)
    assert sorted(site.visited()) == ["/~a/", "/~a/", "/~b/"]
    assert time.monotonic() - started > 1
    assert crawl.stat("hacs/visits") == 1


def test_robots_txt_that_asks_for_a_moment_is_asked_again_after_it(
    site: Site, project: Project
) -> None:
    site.pages["/robots.txt"] = (429, {"Retry-After": "1"}, b"slow down")
    for name in "abc":
        site.set(f"/~{name}/")
    crawl = project.crawl([f"{site.url}/~{name}/" for name in "abc"], RETRY_TIMES=1)
    paths = [path for _, path, _ in site.requests]
    assert sorted(paths) == ["/robots.txt", "/robots.txt", "/~a/", "/~b/", "/~c/"]
    assert paths[:2] == ["/robots.txt", "/robots.txt"]
    assert min(site.times[1] - site.times[0], site.times[2] - site.times[1]) > 0.9
    assert crawl.stat("hacs/visits") == 3
    assert "Traceback" not in crawl.log


def test_what_is_asked_for_past_the_scheduler_waits_for_its_host_too(
    site: Site, any_spider: AnySpider
) -> None:
    site.pages["/robots.txt"] = site.pages["/none"] = (429, {"Retry-After": "1"}, b"slow down")
    site.set("/direct")
    crawl = any_spider.run(
        """
        import asyncio

        import scrapy
        from scrapy.utils.defer import maybe_deferred_to_future


        class Direct(scrapy.Spider):
            name = "direct"

            async def start(self):
                yield scrapy.Request(f"{self.url}/none", self.parse)

            async def parse(self, response):
                engine, request = self.crawler.engine, scrapy.Request(f"{self.url}/direct")
                if hasattr(engine, "download_async"):
                    found = await engine.download_async(request)
                else:
                    found = await maybe_deferred_to_future(engine.download(request))
                yield {"status": found.status}
        """,
        HACS_RETRY_AFTER=True,
        RETRY_ENABLED=False,
        ROBOTSTXT_OBEY=False,
        HTTPERROR_ALLOW_ALL=True,
    )
    assert crawl.items == [{"status": 200}]
    assert [path for _, path, _ in site.requests] == ["/none", "/direct"]
    assert site.times[1] - site.times[0] > 0.9
    assert "Traceback" not in crawl.log


def test_a_request_that_waits_is_no_duplicate_to_a_scheduler_of_the_projects_own(
    site: Site, any_spider: AnySpider
) -> None:
    site.pages["/busy"] = (429, {"Retry-After": "1"}, b"slow down")
    site.set("/page")
    crawl = any_spider.run(
        """
        import scrapy


        class Plain(scrapy.Spider):
            name = "plain"

            async def start(self):
                yield scrapy.Request(f"{self.url}/busy", self.parse, priority=1)
                yield scrapy.Request(f"{self.url}/page", self.parse)

            def parse(self, response):
                yield {"status": response.status}
        """,
        HACS_RETRY_AFTER=True,
        RETRY_ENABLED=False,
        ROBOTSTXT_OBEY=False,
        HTTPERROR_ALLOW_ALL=True,
        DOWNLOAD_DELAY=0.2,
        SCHEDULER="scrapy.core.scheduler.Scheduler",
    )
    assert sorted(item["status"] for item in crawl.items) == [200, 429]
    assert site.times[1] - site.times[0] > 0.9


def test_the_state_follows_the_project_not_the_working_folder(site: Site, project: Project) -> None:
    site.set("/~a/")
    project.state = "sqlite:///.hacs/test-of-the-project-folder.db"
    made = Path(__file__).parents[2] / ".hacs" / "test-of-the-project-folder.db"
    try:
        assert project.crawl([f"{site.url}/~a/"]).exit_status == 0
        assert made.exists()
        assert made.stat().st_mode & stat.S_IRUSR
    finally:
        for file in made.parent.glob("test-of-the-project-folder.db*"):
            file.unlink()


def test_a_new_citation_without_a_link_is_a_publication_of_its_page(
    site: Site, project: Project
) -> None:
    old = "<li>A. Lovelace. Sketch of the engine. Taylor's Memoirs, vol. 3, 1843-1950.</li>"
    new = "<li>A. Lovelace, C. Babbage. On loops. In Proceedings of Engines, 2026.</li>"
    found = []
    for shown in (old, new + old, old + new.replace("On loops.", "<b>On loops</b>.")):
        site.pages["/~ada/"] = (200, {}, f"<html><body><ul>{shown}</ul></body></html>".encode())
        found.append(project.crawl([f"{site.url}/~ada/"]).items)
    first, second, third = found
    assert (first, third) == ([], [])
    (item,) = second
    assert list(item) == ["title", "page", "found_at", "url", "type"]
    assert item["title"] == "A. Lovelace, C. Babbage. On loops. In Proceedings of Engines, 2026."
    assert item["page"] == item["url"] == f"{site.url}/~ada/"


def test_items_have_the_pages_numbers(site: Site, project: Project) -> None:
    site.set("/~a/")
    (item,) = project.crawl([f"{site.url}/~a/"], "-a", "pages=1").items
    assert set(item) == {
        "url",
        "visited_at",
        "is_first",
        "is_update",
        "new_links",
        "new_to_site",
        "rate_per_day",
        "last_update",
        "p",
        "type",
    }


def test_a_page_is_kept_under_the_url_as_seen(site: Site, project: Project) -> None:
    site.set("/~A/")
    project.crawl([f"{site.url}/~A/"])
    page = project.page(f"{site.url}/~A/")
    assert isinstance(page, Page)
    assert page.url == f"{site.url}/~A/"


def test_other_rules_of_links_make_a_baseline_of_each_page_and_no_update(
    site: Site, project: Project
) -> None:
    home = f"{site.url}/~ada/"
    site.set("/~ada/", "a.html", "b.pdf", "c.pdf")
    site.set("/~ada/a.html")
    narrow = {"HACS_LINKS_DENY": r"\.pdf$"}
    project.crawl([home], "-a", "level=homepage", **narrow)
    project.crawl([home], "-a", "level=homepage", **narrow)
    widened = project.crawl([home], "-a", "level=homepage")
    assert (widened.stat("hacs/visits"), widened.stat("hacs/updates")) == (1, 0)
    page = project.page(home)
    assert page is not None
    assert page.baselines.tolist() == [page.last_visit]
    assert len(page.marks) == 3
    site.set("/~ada/", "a.html", "b.pdf", "c.pdf", "d.pdf")
    assert project.crawl([home], "-a", "level=homepage").stat("hacs/updates") == 1
