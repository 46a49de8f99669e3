"""Spiders that watch one page in two ways are refused; settings that find nothing are named."""

from pathlib import Path

import pytest
from scrapy import Spider
from scrapy.http import Response

from crawl_support import Any_, open_crawl
from hacs_crawler.parts.watchers import Watchers
from hacs_crawler.state import Page, Visit, merged

URL = "http://a.example/"


class Other(Spider):
    name = "other"


class Third(Spider):
    name = "third"


def read_by(rules: int) -> Page:
    """A page that was read by such rules."""
    return merged(Page(URL), Visit(URL, 86_400, marks=frozenset({1}), rules=rules)).after


@pytest.mark.parametrize(
    ("noted", "own", "spider", "is_refused"),
    [
        (["text"], "links", Other, True),
        (["text"], "css:p", Other, True),
        (["text"], "text", Other, False),
        (["text"], "css:p", Any_, False),
        (["links"], "text", Other, True),
        (["text", "links"], "css:p", Other, False),
        (["text", "css:a"], "css:p", Other, False),
    ],
)
async def test_a_page_that_another_spider_watches_otherwise_ends_the_crawl(
    noted: list[str], own: str, spider: type[Spider], is_refused: bool, tmp_path: Path
) -> None:
    """What a spider watched before it was given another setting does not count."""
    rules = []
    for watch in noted:
        async with open_crawl(tmp_path, HACS_WATCH=watch) as crawl:
            rules.append(crawl.config.rules.fingerprint)
            assert crawl.parts.of(Watchers).unneeded == ("rules",)
    async with open_crawl(tmp_path, spider, HACS_WATCH=own) as crawl:
        part = crawl.parts.of(Watchers)
        for page in (None, Page(URL), read_by(rules[0] ^ 4)):
            assert part.rules(Response(URL), crawl.config.rules, page) is crawl.config.rules
        assert crawl.failure is None
        part.rules(Response(URL), crawl.config.rules, read_by(rules[0]))
        assert (crawl.failure is not None) is is_refused
        if is_refused:
            assert str(crawl.failure).startswith(
                f"{URL} is also watched by the spider 'any', but differently (HACS_WATCH = {noted[0]!r})"
            )
    if is_refused:
        async with open_crawl(tmp_path, Third, HACS_WATCH="css:q") as crawl:
            others = crawl.parts.of(Watchers)._others.values()
            assert {name for name, _ in others} == {"any", "other"}


async def test_a_setting_of_two_spiders_may_change(tmp_path: Path) -> None:
    for spider in (Any_, Other):
        async with open_crawl(tmp_path, spider, HACS_WATCH="text") as crawl:
            page = read_by(crawl.config.rules.fingerprint)
    for _ in range(2):
        async with open_crawl(tmp_path, Other, HACS_WATCH="css:p") as crawl:
            crawl.parts.of(Watchers).rules(Response(URL), crawl.config.rules, page)
            assert crawl.failure is None


ITEMS = {"item_scraped_count": 1, "hacs/visits": 2, "hacs/first_visits": 1}


@pytest.mark.parametrize(
    ("watch", "JSON", "empty", "seen", "stats", "said"),
    [
        ("links", 2, 0, 0, {}, "HACS_WATCH = 'links' cannot read JSON: 2 of 4 answers"),
        ("links", 3, 0, 0, {}, " 4 of 4 answers. Set HACS_WATCH"),
        ("css:p", 0, 2, 0, {}, "'css:p': found on none of the pages that answered (2)\n"),
        ("items", 0, 2, 0, {"hacs/visits": 1}, "(2); leave pages out by HACS_PAGES if"),
        ("css:p", 0, 2, 1, {}, ""),
        ("css:p", 0, 0, 0, {}, ""),
        ("links", 0, 2, 0, {}, ""),
        ("links", 0, 0, 1, ITEMS, "No page had a new link. To watch the items of this spider"),
        ("css:p", 0, 0, 1, ITEMS, ""),
        ("links", 0, 0, 1, {"hacs/bare": 1}, "on 1 new page without a link, such as http:"),
        ("links", 0, 0, 1, {**ITEMS, "hacs/first_visits": 2}, ""),
        ("links", 0, 0, 1, {**ITEMS, "hacs/updates": 1}, ""),
        ("links", 0, 0, 1, {**ITEMS, "hacs/baselines": 1}, ""),
        ("links", 0, 0, 1, {**ITEMS, "item_scraped_count": 0}, ""),
    ],
)
async def test_it_is_said_where_a_setting_finds_nothing(  # noqa: PLR0917
    watch: str,
    JSON: int,  # noqa: N803
    empty: int,
    seen: int,
    stats: dict[str, int],
    said: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ignored = "n" * (watch == "items")
    async with open_crawl(tmp_path, HACS_WATCH=watch, HACS_WATCH_IGNORE=ignored) as crawl:
        part = crawl.parts.of(Watchers)
        crawl.stats.answers = crawl.stats.readable_answers = 4
        crawl.stats.other_answers.update(["JSON"] * JSON + ["XML"] * (JSON // 3))
        for stat, number in stats.items():
            crawl.stats.collector.set_value(stat, number)
        marks = None if "hacs/bare" in stats else frozenset({1})
        recorded = merged(Page(URL), Visit(URL, 86_400, marks=marks))
        crawl.stats.count("not_observed/nothing_shown", empty)
        part.recorded([recorded] * seen)
        caplog.set_level("INFO")
        caplog.clear()
        part.sum_up()
        assert len(caplog.messages) == bool(said)
        assert said in caplog.text
        assert ("HACS_WATCH_IGNORE = ['n']: found" in caplog.text) == bool(ignored)


@pytest.mark.parametrize(("pages", "readable", "is_said"), [(0, 0, 1), (0, 1, 0), (1, 0, 0)])
async def test_answers_that_are_read_for_items_only_are_named_if_there_are_no_others(
    pages: int, readable: int, is_said: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_crawl(tmp_path) as crawl:
        crawl.stats.readable_answers = readable
        crawl.stats.unread_answers["RSS"] = 3
        if pages:
            crawl.stats.count("visits", pages)
        caplog.set_level("INFO")
        caplog.clear()
        crawl.parts.of(Watchers).sum_up()
        said = "HACS_WATCH = 'links' cannot read RSS: 3 of 3 answers. Set HACS_WATCH"
        assert caplog.messages == [f'{said} = "items"'] * is_said


@pytest.mark.parametrize(("other", "level"), [(None, "WARNING"), (URL, "INFO")])
async def test_it_is_a_warning_that_all_requests_were_posted(
    other: str | None, level: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_crawl(tmp_path) as crawl:
        crawl.stats.posted, crawl.stats.not_a_page = f"{URL} was requested by POST", other
        caplog.set_level("INFO")
        caplog.clear()
        crawl.parts.of(Watchers).sum_up()
        assert [record.levelname for record in caplog.records] == [level]
        assert caplog.text.endswith('as in meta={"hacs_page": f"{url}?page={page}"}\n')
