"""Pages made by JavaScript, visited by whole Scrapy processes with a real Chromium."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from msgspec import msgpack

from browser import CHROMIUM, needs_chromium
from hacs_crawler.links import page_id_of
from hacs_crawler.parts.rendering.verdicts import PageRendering, Verdict, decoded
from hacs_crawler.state import Annotation, Page, Store, open_store
from integration_support import AnySpider, Crawl, Project
from scripted_site import ScriptedSite

pytest.importorskip("scrapy_playwright")
pytestmark = [needs_chromium, pytest.mark.slow]

SMALL_HEAP = "--js-flags=--max-old-space-size=64"
"""So that a page that eats memory crashes soon."""
LAUNCH = {"executable_path": CHROMIUM, "args": ["--no-sandbox", SMALL_HEAP]}
SPIDER = """
    from contextlib import suppress

    import psutil
    from scrapy_playwright.page import PageMethod

    class Plain(scrapy.Spider):
        name = "plain"

        async def start(self):
            for url in self.urls.split():
                yield scrapy.Request(url, errback=self.failed, meta=META)

        def parse(self, response):
            if response.url.endswith("?kill"):
                for process in psutil.Process().children(recursive=True):
                    with suppress(psutil.NoSuchProcess):
                        if "chrom" in process.name():
                            process.kill()
            outcome = response.meta["hacs"]
            self.logger.info(
                "saw %s: %d links, %s",
                response.url,
                len(response.css("a")),
                getattr(outcome, "reason", "") or ("new" if outcome.is_update else "nothing new"),
            )

        def failed(self, failure):
            self.logger.info("failed %s", failure.request.url)
"""


class Runs(AnySpider):
    """Crawls of the site by a spider of a project's own, on one state."""

    def __init__(self, project: Project, site: ScriptedSite) -> None:
        super().__init__(project.folder, site)
        self._project = project
        # a browser's sockets could have no name in it: TMPDIR may be as long as that
        self.temporary = project.folder / "temporary" / (60 * "x") / (40 * "y")
        self.temporary.mkdir(parents=True)

    def __call__(self, *paths: str, day: int = 0, meta: str = "{}", **settings: Any) -> Crawl:
        self.days = day
        given = {
            "HACS_RENDER": "auto",
            "PLAYWRIGHT_DEFAULT_NAVIGATION_TIMEOUT": 12_000,
            "PLAYWRIGHT_LAUNCH_OPTIONS": json.dumps(LAUNCH),
            "ROBOTSTXT_OBEY": True,
            "RETRY_ENABLED": False,
        } | settings
        urls = " ".join(urljoin(self._site.url, path) for path in paths)
        crawl = self.run(SPIDER.replace("META", meta), f"urls={urls}", **given)
        assert "'finish_reason': 'finished'" in crawl.log
        return crawl

    def _environment(self) -> dict[str, str]:
        return {**super()._environment(), "TMPDIR": str(self.temporary)}

    def page(self, path: str) -> Page | None:
        return self._project.page(self._site.url + path)

    def mark(self, path: str) -> PageRendering:
        key = page_id_of(self._site.url + path)
        with self._store() as store:
            return decoded(PageRendering, store.annotations(PageRendering.KIND, [key]).get(key))

    def set_marks(self, *paths: str) -> None:
        """Mark pages that nothing is known of as such that need a browser."""
        mark = msgpack.encode(PageRendering(Verdict.BROWSER))
        with self._store() as store:
            marks = [Annotation(page_id_of(self._site.url + path), b"", mark) for path in paths]
            assert not store.annotate(PageRendering.KIND, marks)

    def _store(self) -> closing[Store]:
        return closing(open_store(self._project.state, "hacs", Path()))


@pytest.fixture
def scripted() -> Iterator[ScriptedSite]:
    with ScriptedSite() as site:
        yield site


@pytest.fixture
def runs(project: Project, scripted: ScriptedSite) -> Runs:
    return Runs(project, scripted)


def seen(crawl: Crawl) -> dict[str, tuple[int, str]]:
    """How many links the spider saw on each page, and what HACS said of it."""
    found = re.findall(r"saw http://[^/]+(\S+): (\d+) links, (.*)", crawl.log)
    return {path: (int(number), said) for path, number, said in found}


def test_a_page_whose_links_come_from_a_fetch_is_marked_and_rendered_from_then_on(
    runs: Runs, scripted: ScriptedSite
) -> None:
    scripted.links["/app/1"] = ["/a", "/b"]
    first = runs("/app/1")
    assert seen(first) == {"/app/1": (2, "nothing new")}
    assert first.stat("hacs/render/marked") == 1
    assert [one.by_browser for one in scripted.asked if one.path == "/app/1"] == [False, True, True]
    assert runs.mark("/app/1").verdict is Verdict.BROWSER

    scripted.asked.clear()
    scripted.links["/app/1"].append("/c")
    second = runs("/app/1", day=1)
    assert seen(second) == {"/app/1": (3, "new")}
    assert [one.by_browser for one in scripted.asked if one.path == "/app/1"] == [True]
    assert second.stat("hacs/updates") == second.stat("hacs/new_links") == 1
    assert second.stat("hacs/render/pages") == 1
    assert runs.mark("/app/1").verdict is Verdict.BROWSER
    assert "'hacs/render/seconds': 0.0," not in second.log


def test_a_page_that_scrolls_without_end_shows_what_is_in_sight_and_ends(
    runs: Runs, scripted: ScriptedSite
) -> None:
    (number, _) = seen(runs("/infinite"))["/infinite"]
    assert 5 <= number <= 50
    assert seen(runs("/infinite", day=1)) == {"/infinite": (number, "nothing new")}


def test_a_page_that_never_ends_loading_is_taken_as_it_is(
    runs: Runs, scripted: ScriptedSite
) -> None:
    scripted.links["/never"] = ["/a", "/b"]
    assert seen(runs("/never")) == {"/never": (2, "nothing new")}
    assert runs.mark("/never").verdict is Verdict.BROWSER


@pytest.mark.parametrize("path", ["/stuck", "/crash"])
def test_a_page_that_hangs_or_crashes_the_browser_costs_its_visit_and_nothing_else(
    path: str, runs: Runs, scripted: ScriptedSite
) -> None:
    scripted.links["/app/1"] = ["/a"]
    runs.set_marks(path, "/app/1")
    crawl = runs(path, "/app/1", PLAYWRIGHT_DEFAULT_NAVIGATION_TIMEOUT=20_000)
    assert f"failed {scripted.url}{path}" in crawl.log
    assert seen(crawl) == {"/app/1": (1, "nothing new")}
    assert crawl.stat("hacs/render/failed") == 1
    assert crawl.stat("hacs/not_observed/error") == 1
    assert not runs.page(path).visits


@pytest.mark.parametrize(
    ("path", "end"), [("/away", "chrome-error://chromewebdata/"), ("/blank", "about:blank")]
)
def test_what_a_browser_ends_at_that_is_no_page_of_the_web_is_a_failed_visit(
    path: str, end: str, runs: Runs, scripted: ScriptedSite
) -> None:
    runs.set_marks(path)
    # robots.txt of a host that refuses connections is a traceback in Scrapy's log
    crawl = runs(path, ROBOTSTXT_OBEY=False)
    assert f"failed {scripted.url}{path}" in crawl.log
    assert f"{path} could not be rendered: a browser ended at {end}" in crawl.log
    assert crawl.stat("hacs/not_observed/error") == 1
    assert not runs.page(path).visits


def test_a_browser_that_dies_is_started_anew(runs: Runs, scripted: ScriptedSite) -> None:
    scripted.links |= {"/app/1": ["/a"], "/app/2": ["/a"]}
    runs.set_marks("/app/1?kill", "/app/2")
    first = {"HACS_POLICY": "brute-force", "CONCURRENT_REQUESTS": 1}
    crawl = runs("/app/1?kill", "/app/2", **first)
    assert seen(crawl) == {"/app/1?kill": (1, "nothing new"), "/app/2": (1, "nothing new")}
    assert crawl.stat("playwright/browser_count") == 2


def test_images_and_fonts_and_media_are_not_asked_for(runs: Runs, scripted: ScriptedSite) -> None:
    scripted.links["/heavy"] = ["/a"]
    assert seen(runs("/heavy")) == {"/heavy": (1, "nothing new")}
    by_browser = {one.path for one in scripted.asked if one.by_browser}
    assert by_browser == {"/heavy", "/app.js", "/data/heavy"}


def test_a_browser_asks_for_nothing_that_robots_txt_forbids(
    runs: Runs, scripted: ScriptedSite
) -> None:
    scripted.links["/forbidden/1"] = ["/a"]
    crawl = runs("/forbidden/1")
    assert scripted.times_asked("/app.js") == 1
    assert scripted.times_asked("/data/forbidden/1") == 0
    assert crawl.stat("hacs/render/forbidden") == 1
    assert crawl.stat("hacs/render/marked") == 0


def test_a_page_that_a_browser_is_redirected_to_is_not_taken_where_robots_txt_forbids_it(
    runs: Runs, scripted: ScriptedSite
) -> None:
    scripted.moved = {"/app/1": "/data/forbidden/1", "/app/2": "/app/3"}
    scripted.links["/app/3"] = ["/a"]
    runs.set_marks(*scripted.moved)
    crawl = runs("/app/1", "/app/2")
    assert seen(crawl) == {"/app/3": (1, "nothing new")}
    assert f"failed {scripted.url}/app/1" in crawl.log
    assert crawl.stat("hacs/not_observed/refused") == 1
    assert runs.mark("/app/1").verdict is Verdict.BROWSER


def test_what_a_browser_asks_for_waits_for_the_delay_of_its_host(
    runs: Runs, scripted: ScriptedSite
) -> None:
    scripted.links["/app/1"] = ["/a"]
    delay = 0.5
    crawl = runs("/app/1", DOWNLOAD_DELAY=delay, RANDOMIZE_DOWNLOAD_DELAY=False)
    assert seen(crawl) == {"/app/1": (1, "nothing new")}
    assert len([one for one in scripted.asked if one.by_browser]) == 6
    times = [one.at for one in scripted.asked]  # one that was late makes the next gap short
    assert times[-1] - times[0] > 0.8 * delay * (len(times) - 1), times


def test_where_the_browser_is_missing_that_is_said_once_and_marked_pages_are_not_recorded(
    runs: Runs, scripted: ScriptedSite
) -> None:
    scripted.links |= {path: ["/a"] for path in ("/app/1", "/app/2", "/same/1")}
    runs.set_marks("/app/1", "/app/2")
    missing = json.dumps({"executable_path": "/nowhere/chromium"})
    crawl = runs("/app/1", "/app/2", "/same/1", PLAYWRIGHT_LAUNCH_OPTIONS=missing)
    assert crawl.log.count("There is no browser") == 1
    assert [*runs.temporary.iterdir()] == []
    assert seen(crawl) == {
        "/app/1": (0, "needs_browser"),
        "/app/2": (0, "needs_browser"),
        "/same/1": (1, "nothing new"),
    }
    assert crawl.stat("hacs/not_observed/needs_browser") == 2
    assert not runs.page("/app/1").visits
    assert runs.mark("/app/1").verdict is Verdict.BROWSER


def test_a_file_on_a_site_of_applications_is_asked_for_plainly(
    runs: Runs, scripted: ScriptedSite
) -> None:
    runs.set_marks("/file")
    crawl = runs("/file")
    assert crawl.stat("hacs/not_observed/other_type") == 1
    assert crawl.stat("hacs/not_observed") == 1
    assert runs.mark("/file").verdict is Verdict.PLAIN
    assert [one.by_browser for one in scripted.asked if one.path == "/file"] == [True, False]


def test_the_proxy_of_a_request_is_the_browser_s_too(runs: Runs, scripted: ScriptedSite) -> None:
    scripted.links["/app/1"] = ["/a"]
    crawl = runs(
        "http://pages.example/app/1",
        meta=f'{{"proxy": "{scripted.url}"}}',
        ROBOTSTXT_OBEY=False,  # robots.txt is not asked of the proxy
    )
    assert seen(crawl) == {"/app/1": (1, "nothing new")}
    assert scripted.times_asked("/app/1") == 3
    assert scripted.times_asked("/data/app/1") == 2


def test_a_project_that_uses_playwright_itself_goes_on_with_its_own_browser(
    runs: Runs, scripted: ScriptedSite, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # the project's own browser aborts where Chromium's sockets have no room, with or without the add-on
    runs.temporary = tmp_path_factory.getbasetemp()
    scripted.links |= {"/app/1": ["/a"], "/app/2": ["/a", "/b"]}
    theirs = '{"http": "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler"}'
    methods = '[PageMethod("wait_for_selector", "a")]'
    crawl = runs(
        "/app/1",
        meta=f'{{"playwright": True, "playwright_page_methods": {methods}}}',
        DOWNLOAD_HANDLERS=theirs,
    )
    assert seen(crawl) == {"/app/1": (1, "nothing new")}
    assert [one.by_browser for one in scripted.asked if one.path == "/app/1"] == [True]
    assert crawl.stat("hacs/render/pages") == 0

    ours = runs("/app/2", DOWNLOAD_HANDLERS=theirs)
    assert seen(ours) == {"/app/2": (2, "nothing new")}
    assert ours.stat("hacs/render/marked") == 1
