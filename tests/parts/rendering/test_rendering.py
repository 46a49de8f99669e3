"""When pages are rendered at all, and what a fault of the code that decides it costs."""

import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from lxml import html
from scrapy import Request
from scrapy.http import HtmlResponse, Response
from scrapy.utils.test import get_crawler

from crawl_support import open_crawl, run
from hacs_crawler.crawl.meta import tag_of
from hacs_crawler.crawl.parts import Parts
from hacs_crawler.links import LinkRules
from hacs_crawler.parts.rendering.browser import (
    Browser,
    NoPageError,
    RenderingError,
    UnreachableError,
)
from hacs_crawler.parts.rendering.rendering import ROOTS, Rendering, suspicion_of
from hacs_crawler.parts.rendering.verdicts import (
    PageRendering,
    RenderedLinks,
    SiteRendering,
    Verdict,
)

URL = "http://a.example/"
SHELL = HtmlResponse(URL, body=b"<div id=root></div><script>draw()</script>")


class Stats(Counter[str]):
    def count(self, name: str, number: int = 1) -> None:
        self[name] += number


def rendering(mode: str) -> Rendering:
    crawl: Any = SimpleNamespace(
        config=SimpleNamespace(render=mode), crawler=get_crawler(), stats=Stats()
    )
    return Rendering.from_crawl(crawl)


def broken(*_: object) -> None:
    raise ValueError("a fault")


@pytest.mark.parametrize("hook", ["before_request", "answered"])
def test_a_page_over_which_the_code_fails_is_given_to_the_callback_and_not_observed(
    hook: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = rendering("auto")
    failures: list[str] = []
    parts = Parts([part], Stats(), failures.append)
    monkeypatch.setattr(part, "ready" if hook == "before_request" else "records", broken)
    request = Request(URL)

    async def visit() -> Response:
        if hook == "before_request":
            await parts.before_request(request, URL)
        return await parts.answered(request, SHELL, URL)

    assert run(visit()) is SHELL
    assert (tag_of(request).unseen, failures) == ("part_failed", [])


def test_links_of_a_rendered_page_are_kept_apart_from_those_of_its_plain_answer() -> None:
    rules, part = LinkRules(), RenderedLinks()
    assert part.rules(SHELL, rules) is rules
    shown = part.rules(SHELL.replace(flags=["playwright"]), rules)
    assert shown.fingerprint != rules.fingerprint


def page(links: str, *, is_rendered: bool = False, flags: Sequence[str] = ()) -> HtmlResponse:
    """A page that looks as if scripts would make links of it, and has some links outside of that."""
    anchors = "".join(f"<a href=/{link}>{link}</a>" for link in links)
    body = f"{anchors}<div id=root></div><script>draw()</script>".encode()
    return HtmlResponse(URL, body=body, flags=[*flags, *["playwright"] * is_rendered])


UNKNOWN, PLAIN, BROWSER = (PageRendering(verdict) for verdict in Verdict)
DUE, NOT_DUE, FAILED = (PageRendering(Verdict.BROWSER, visits) for visits in (19, 3, 7))
NO_SITE, PLAIN_SITE, SITE = SiteRendering(), SiteRendering(plain=1), SiteRendering(browser=3)


@asynccontextmanager
async def in_crawl(
    folder: Path, *answers: str | None, mode: str = "auto", is_there: bool = True
) -> AsyncIterator[tuple[Rendering, list[bool]]]:
    """The part in a crawl whose site has these links at each request, and which requests it renders."""
    asked: list[bool] = []

    async def download(request: Request) -> Response:
        asked.append(request.meta["hacs.render"] == URL)
        if (links := answers[len(asked) - 1]) is None:
            raise OSError("no answer")
        return page(links, is_rendered=asked[-1])

    async def has_browser(*_: object) -> bool:
        return is_there

    async with open_crawl(folder, HACS_RENDER=mode) as crawl:
        engine: Any = crawl.crawler.engine
        engine.download_async = download
        part = Rendering(crawl)
        part._browser = cast(Browser, SimpleNamespace(is_there=has_browser))
        yield part, asked


async def test_without_scrapy_playwright_the_start_of_a_crawl_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for is_missing in (False, True):
        if is_missing:
            monkeypatch.setitem(sys.modules, "scrapy_playwright", None)
        async with open_crawl(tmp_path, HACS_RENDER="auto") as crawl:
            assert caplog.text.count("no browser (scrapy-playwright is missing: pip") == is_missing
            assert not (is_missing and await crawl.parts.of(Rendering)._browser.is_there())
    assert caplog.text.count("There is no browser") == 1


@pytest.mark.parametrize(
    ("before", "links", "answers", "asked", "after", "site", "shown"),
    [
        # plain answers of pages without a verdict
        (UNKNOWN, "a", ["ab", "ab"], [True, True], BROWSER, SiteRendering(browser=1), "ab"),
        (UNKNOWN, "a", ["a"], [True], PLAIN, PLAIN_SITE, "a"),
        (UNKNOWN, "ab", ["ac", "ad"], [True, True], PLAIN, PLAIN_SITE, "ab"),
        (UNKNOWN, "a", [None], [True], PageRendering(visits=7), NO_SITE, "a"),
        (UNKNOWN, "a", ["ab", None], [True, True], PageRendering(visits=7), NO_SITE, "a"),
        # renderings
        (DUE, "ab", ["a", "ab"], [False, True], BROWSER, NO_SITE, "ab"),
        (DUE, "ab", ["ab"], [False], PLAIN, PLAIN_SITE, "ab"),
        (DUE, "ab", [None], [False], DUE, NO_SITE, "ab"),
        (NOT_DUE, "ab", [], [], PageRendering(Verdict.BROWSER, 4), NO_SITE, "ab"),
    ],
)
async def test_a_page_is_fetched_the_other_way_and_once_more_before_its_verdict(  # noqa: PLR0917
    before: PageRendering,
    links: str,
    answers: list[str | None],
    asked: list[bool],
    after: PageRendering,
    site: SiteRendering,
    shown: str,
    tmp_path: Path,
) -> None:
    async with in_crawl(tmp_path, *answers) as (part, rendered):
        part.keep(URL, before, NO_SITE)
        response = page(links, is_rendered=before is not UNKNOWN)
        assert (await part.answered(Request(URL), response, URL)).body == page(shown).body
        assert rendered == asked
        assert part.records(URL) == (after, site)
        is_marked = after.verdict is Verdict.BROWSER is not before.verdict
        assert bool(part._crawl.stats.get("render/marked")) is is_marked


async def test_pages_are_judged_by_their_site_and_only_where_there_is_something_to_judge(
    tmp_path: Path,
) -> None:
    async with in_crawl(tmp_path) as (part, asked):
        part.keep(URL, UNKNOWN, SITE)
        for request, response in (
            (Request(URL), page("", flags=["cached"])),
            (Request(URL, meta={"playwright": True}), page("")),
            (Request(URL), page("").replace(status=404)),
            (Request(URL), Response(URL)),
            (Request(URL), HtmlResponse(URL, body=b"<a href=/a>a</a>")),
        ):
            assert await part.answered(request, response, URL) is response
        assert part.records(URL) == (UNKNOWN, SITE)
        await part.answered(Request(URL), page("", is_rendered=True), URL)
        assert part.records(URL) == (UNKNOWN, SiteRendering(browser=3, visits=1))
        assert asked == []
    async with in_crawl(tmp_path, is_there=False) as (part, asked):
        await part.answered(Request(URL), page(""), URL)
        assert (part.records(URL)[0], asked) == (UNKNOWN, [])
    async with in_crawl(tmp_path, "a", is_there=False) as (part, asked):
        part.keep(URL, DUE, NO_SITE)
        await part.answered(Request(URL), page("a", is_rendered=True), URL)
        assert (part.records(URL)[0], asked) == (PLAIN, [False])


@pytest.mark.parametrize(
    ("error", "mode", "after", "is_repeated"),
    [
        (OSError(), "auto", BROWSER, False),
        (RenderingError(), "auto", FAILED, False),
        (UnreachableError(), "auto", BROWSER, False),
        (NoPageError(), "auto", PLAIN, True),
        (RenderingError(), "always", BROWSER, False),
        (NoPageError(), "always", BROWSER, False),
    ],
)
async def test_a_page_that_cannot_be_rendered_is_not_rendered_for_long(
    error: Exception, mode: str, after: PageRendering, is_repeated: bool, tmp_path: Path
) -> None:
    async with in_crawl(tmp_path, mode=mode) as (part, _):
        part.keep(URL, BROWSER, NO_SITE)
        again = part.failed(Request(URL), error, URL)
        assert (again is not None and again.dont_filter) is is_repeated
        assert part.records(URL)[0] == after


@pytest.mark.parametrize(
    ("record", "settings", "is_marked", "unseen"),
    [
        (BROWSER, {}, True, ""),
        (PLAIN, {}, False, ""),
        (PLAIN, {"mode": "always"}, True, ""),
        (BROWSER, {"is_there": False}, False, "needs_browser"),
    ],
)
async def test_requests_for_pages_that_need_a_browser_are_marked(
    record: PageRendering, settings: dict[str, Any], is_marked: bool, unseen: str, tmp_path: Path
) -> None:
    async with in_crawl(tmp_path, **settings) as (part, _):
        part.keep(URL, record, NO_SITE)
        request = Request(
            URL, headers={"If-None-Match": "1"}, meta={"hacs.render": "http://b.example/"}
        )
        await part.before_request(request, None)
        assert "playwright" not in request.meta
        await part.before_request(request, URL)
        assert request.meta.get("hacs.render") == (URL if is_marked else None)
        assert ("If-None-Match" in request.headers) is not is_marked
        assert tag_of(request).unseen == unseen


# Which plain answers look as if a browser showed more


LINKS = "".join(f'<a href="/{n}">page {n}</a>' for n in range(20))
TEXT = "<p>" + "A page says something. " * 50 + "</p>"
SCRIPT = '<script src="/app.js"></script>'


EMPTY_ROOT = "an application's root without links"
NOTICE = "<noscript>You need to enable JavaScript to run this app.</noscript>"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        *((f'{LINKS}<div id="{name}"></div>{SCRIPT}', EMPTY_ROOT) for name in ROOTS),
        (f"{LINKS}<app-root></app-root>{SCRIPT}", EMPTY_ROOT),
        (f"{LINKS}<div ng-app></div>{SCRIPT}", EMPTY_ROOT),
        (f'<div id="__next">{LINKS}{TEXT}</div>{SCRIPT}', ""),
        (f"{LINKS}{TEXT}{NOTICE}{SCRIPT}", "a notice to those without JavaScript"),
        (f'{LINKS}{TEXT}<noscript><img src="/count.gif"></noscript>{SCRIPT}', ""),
        (f'<a href="/a">a</a>{SCRIPT}', "few links and much script"),
        (f"<p>text</p><script>{'x = 1;' * 100}</script>", "few links and much script"),
        (f"{LINKS}{SCRIPT}", ""),
        (f"{TEXT * 10}{SCRIPT}", ""),
        ('<div id="root"></div>', ""),
        ("", ""),
    ],
)
def test_a_page_is_suspicious_that_leaves_its_links_to_a_script(body: str, why: str) -> None:
    page = html.document_fromstring(f"<html><body>{body}</body></html>")
    assert suspicion_of(page) == why


def test_what_is_no_tree_is_not_suspicious() -> None:
    assert suspicion_of(None) == ""
