"""Marks that pages of one site share are taken back: of a template, and of a page that is not theirs."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawl_support import open_crawl
from hacs_crawler.links import page_id_of
from hacs_crawler.parts import templates
from hacs_crawler.parts.templates import Templates
from hacs_crawler.state import SEEN, Harvest, Label, Prediction, State, Visit

DAY = 86_400
OWN_RULES, LINK_RULES, ITEM_RULES = 5, 4, 7
SAME = range(1000, 1005)
"""As many marks as make two pages that show the very same suspicious."""


def visits(
    day: int, shown: Sequence[Sequence[int]], rules: int = OWN_RULES, site: str = "a"
) -> list[Visit]:
    """A visit to each page of a site, and what it showed."""
    urls = (f"http://{site}.example/{number}" for number in range(len(shown)))
    return [
        Visit(url, day * DAY, marks=frozenset(marks), rules=rules)
        for url, marks in zip(urls, shown, strict=True)
    ]


async def taken_back(folder: Path, *batches: Sequence[Visit]) -> tuple[list[str], list[str]]:
    """Paths of the pages whose last visit is taken back as an echo, and as one that was not read."""
    found: tuple[list[str], list[str]] = ([], [])
    async with open_crawl(folder) as crawl:
        part = crawl.parts.of(Templates)
        for batch in batches:
            part.recorded(await crawl.state.once(State.record, batch))
            for _ in range(2):
                await part.round_ended(lambda: False)
        urls = [visit.url for visit in batches[-1]]
        pages = await crawl.state.once(State.load, [page_id_of(url) for url in urls])
        for page in pages.values():
            for paths, times in zip(found, (page.echoes, page.unread), strict=True):
                paths.extend([page.url.split("/")[3]] * (batches[-1][0].at in times))
        if len(batches) < 3:
            names = "template_updates", "unread_visits"
            assert [crawl.stats.get(name) for name in names] == [*map(len, found)]
    return found


def own(number: int, *more: int) -> list[int]:
    """Marks of a page's own, and more."""
    return [*range(number * 10 + 1, number * 10 + 6), *more]


def template(pages: int, sharing: int, news: int = 0, rules: int = OWN_RULES) -> list[list[Visit]]:
    """Two visits of a site's pages, of which some share a new mark, and some of these have news."""
    shared = [[99] * (number < sharing) + [-1] * (number < news) for number in range(pages)]
    return [
        visits(1, [own(number) for number in range(pages)], rules),
        visits(2, [own(number, *shared[number]) for number in range(pages)], rules),
    ]


@pytest.mark.parametrize(
    ("batches", "echoes"),
    [
        (template(20, 11), 11),
        (template(20, 10), 0),
        (template(19, 19), 0),
        (template(20, 20, news=1), 19),
        (template(20, 20, rules=LINK_RULES), 0),
        (template(20, 20)[1:], 0),
        ([*template(19, 19), visits(2, [own(1, 99)], site="b")], 0),
        ([template(19, 19)[0], [*template(19, 19)[1], Visit("http://a.example/0", 3 * DAY)]], 0),
        (
            [template(20, 20)[0], [replace(v, harvest=Harvest(1, 1)) for v in template(20, 20)[1]]],
            0,
        ),
    ],
)
async def test_what_is_new_on_most_of_many_pages_is_the_templates(
    batches: list[list[Visit]], echoes: int, tmp_path: Path
) -> None:
    shown, unread = await taken_back(tmp_path, *batches)
    assert (len(shown), unread) == (echoes, [])


def quarter_of(
    pages: int, error: list[int], rules: int = OWN_RULES, had: Sequence[Sequence[int]] = ()
) -> list[list[Visit]]:
    """Two visits of pages with few marks, of which a quarter shows an error; some `had` others."""
    shown = [[100 + number, *error[1:]] for number in range(pages - len(had))] + [*had]
    return [visits(1, shown, rules), visits(2, [error] * (pages // 4) + shown[pages // 4 :], rules)]


FIRST = visits(1, [own(1), own(2)])
PARTS = [own(n)[:3] for n in range(12)]


@pytest.mark.parametrize(
    ("batches", "unread"),
    [
        ([FIRST, visits(2, [SAME, SAME])], "01"),
        ([FIRST, visits(2, [SAME])], ""),
        ([FIRST, visits(2, [SAME, own(3)])], ""),
        ([FIRST, *(visits(day, [SAME, SAME]) for day in range(2, 7))], "01"),
        ([FIRST, *(visits(day, [SAME, SAME]) for day in range(2, 8))], ""),
        ([visits(1, [own(1)[1:], own(2)[1:]]), visits(2, [SAME, SAME])], ""),
        ([FIRST, visits(2, [own(1), own(1)])], ""),
        ([visits(1, [own(1), own(1)]), visits(2, [SAME, SAME])], ""),
        ([visits(1, [[1], [2], [3]]), visits(2, [[9]] * 3)], "012"),
        # of redirects that the duplicate filter drops, nothing was asked before
        ([visits(1, [[1], [2], [3]], ITEM_RULES), visits(2, [[9]] * 3, ITEM_RULES)], "012"),
        ([visits(1, [[1], [2], [3]]), visits(2, [[9]] * 2)], ""),
        ([visits(1, [[1], [1], [3]]), visits(2, [[9]] * 3)], ""),
        ([visits(1, [[n] for n in range(6)]), visits(2, [[9]] * 3 + [[3], [4], [5]])], ""),
        # of pages that had all an item, or several texts, of their own, a few are enough
        (quarter_of(12, [9], ITEM_RULES), "012"),
        (quarter_of(12, [9, 8]), "012"),
        ([visits(1, PARTS), visits(2, [[9]] * 3 + PARTS[3:])], "012"),
        (quarter_of(12, [9]), ""),
        (quarter_of(12, [9], ITEM_RULES, had=[[9]]), ""),
        (quarter_of(12, [9], ITEM_RULES, had=[[8]] * 3), ""),
        ([visits(1, [[1, 2], [3, 4]], LINK_RULES), visits(2, [SAME] * 2, LINK_RULES)], "01"),
        # two lists that become the same by shared news
        ([visits(1, [own(1), own(1)[1:]], LINK_RULES), visits(2, [own(1, 9)] * 2, LINK_RULES)], ""),
        ([visits(1, [[1], [2]], LINK_RULES), visits(2, [SAME] * 2, LINK_RULES)], ""),
        # a link or two of their own in the frame of the site
        ([visits(1, [[*SAME, n] for n in (1, 2, 3)]), visits(2, [[*SAME, 9]] * 3)], "012"),
        ([visits(1, [[*SAME, n] for n in (1, 2)]), visits(2, [[*SAME, 9]] * 2)], ""),
        ([visits(1, [[*SAME, 8, n] for n in (1, 2, 3)]), visits(2, [[*SAME, 9]] * 3)], ""),
    ],
)
async def test_pages_that_show_the_very_same_and_showed_others_before_were_not_read(
    batches: list[list[Visit]], unread: str, tmp_path: Path
) -> None:
    assert await taken_back(tmp_path, *batches) == ([], list(unread))


async def test_a_page_whose_item_was_doubted_counts_once(tmp_path: Path) -> None:
    shown, now = [[9], [1], [2], [3], [4]], [[9], [9], [9], [9], [4]]
    async with open_crawl(tmp_path) as crawl:
        part = crawl.parts.of(Templates)
        recorded = await crawl.state.once(State.record, visits(1, shown, ITEM_RULES))
        pages = [visited.after for visited in recorded]
        of = zip(pages, map(frozenset, now), strict=True)
        doubted = [part.doubts(page, {}, marks) for page, marks in of]
        assert doubted == [False, False, False, True, False]
        again = zip(visits(2, now, ITEM_RULES), doubted, strict=True)
        seen = [visit for visit, is_doubted in again if not is_doubted]
        part.recorded(await crawl.state.once(State.record, seen))
        await part.round_ended(lambda: False)
        assert crawl.stats.get("unread_visits") == 3


@pytest.mark.parametrize(
    ("days", "first", "second", "rules", "unread"),
    [
        (2, SAME, map(own, range(3)), OWN_RULES, 3),
        (2, SAME, map(own, range(3)), LINK_RULES, 3),
        (5, SAME, map(own, range(3)), LINK_RULES, 3),
        (6, SAME, map(own, range(3)), LINK_RULES, 0),
        (2, [7], [[1], [2], [3]], ITEM_RULES, 3),
        (2, [7], [[1], [2], [3]], OWN_RULES, 3),
        (2, [7], [[1], [2], [3], *[[7]] * 3], OWN_RULES, 0),
        (2, SAME, map(own, range(2)), OWN_RULES, 0),
        (2, SAME, [*map(own, range(3)), *[SAME] * 3], LINK_RULES, 0),
        (2, SAME, [own(1)] * 3, LINK_RULES, 0),
    ],
)
async def test_what_pages_all_showed_at_first_is_no_baseline_once_most_show_others(
    days: int,
    first: Sequence[int],
    second: Iterable[Sequence[int]],
    rules: int,
    unread: int,
    tmp_path: Path,
) -> None:
    shown = [*second]
    batches = [visits(day, [first] * len(shown), rules) for day in range(1, 1 + days)]
    async with open_crawl(tmp_path) as crawl:
        part = crawl.parts.of(Templates)
        for batch in (*batches, visits(9, shown, rules)):
            part.recorded(await crawl.state.once(State.record, batch))
            await part.round_ended(lambda: False)
        assert crawl.stats.get("unread_visits") == days * unread


@pytest.mark.parametrize(
    ("first", "gained", "unread"),
    [((), 3, 1), ((7, 8), 3, 1), ((7, 8, 9), 3, 0), ((own(0)[0],), 3, 0), ((), 2, 0)],
)
async def test_a_first_visit_that_showed_the_frame_of_the_site_alone_is_no_baseline(
    first: Sequence[int], gained: int, unread: int, tmp_path: Path
) -> None:
    shown = [[*SAME, *own(number)[: max(gained, number)]] for number in range(6)]
    async with open_crawl(tmp_path) as crawl:
        part = crawl.parts.of(Templates)
        for day, of_first in enumerate([[*SAME, *first], shown[0]], 1):
            batch = visits(day, [of_first, *shown[1:]], LINK_RULES)
            part.recorded(await crawl.state.once(State.record, batch))
            await part.round_ended(lambda: False)
        assert crawl.stats.get("unread_visits") == unread


@pytest.mark.parametrize(
    ("first", "second", "flags"),
    [
        (visits(1, [[1], [2], [3]]), [[9]] * 3, 0),
        (template(20, 20)[0], [own(number, 99) for number in range(20)], SEEN),
    ],
    ids=["block page", "template"],
)
async def test_what_is_taken_back_is_no_update_of_stats_and_outcomes_either(
    first: list[Visit],
    second: list[list[int]],
    flags: int,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    label = Label("hacs", "bayes", 0.0, "visit", siblings=False)
    ranked = Prediction(label.number, 1, 0.5, 0.1, 1.0, 0.0)
    second_visits = [replace(visit, prediction=ranked) for visit in visits(2, second)]
    never_seen = Prediction(label.number, 1, 1.0, 0.1, math.inf, 0.0)
    second_visits[0] = replace(second_visits[0], prediction=never_seen)
    async with open_crawl(tmp_path) as crawl:
        await crawl.state.once(State.record, first)
        recorded = await crawl.state.once(State.record, second_visits)
        crawl.stats.count_recorded(recorded, "page")
        crawl.stats.count_not_observed("doubtful", recorded[0].visit.url)
        crawl.parts.of(Templates).recorded(recorded)
        assert crawl.stats.get("updates") == crawl.stats.found_updates + 1 == len(second)
        await crawl.parts.of(Templates).round_ended(lambda: False)
        names = "updates", "new_links", "found_updates"
        assert [*map(crawl.stats.get, names), crawl.stats.found_updates] == [0] * 4
        assert crawl.stats.expected_updates == 0.5 * (len(second) - 1) * (flags == SEEN)
        assert bool(crawl.stats.doubtful) is (flags == SEEN)
        outcomes = await crawl.state.once(State.outcomes)
        assert outcomes["flags"].tolist() == [flags] * len(second)
    assert ("template: 20 updates taken back" in caplog.text) is (flags == SEEN)


@pytest.mark.parametrize(
    ("first", "second", "counted"),
    [
        ([[1], [2], [3]], [[9]] * 4, [4, 1, 0]),  # the fourth page is new
        ([own(1), own(2)], [SAME] * 2, [0, 0, 2]),  # not the page, or so it seems at once
    ],
)
async def test_a_visit_of_a_block_page_counts_once_as_not_observed(
    first: list[list[int]], second: list[list[int]], counted: list[int], tmp_path: Path
) -> None:
    async with open_crawl(tmp_path) as crawl:
        part, stats = crawl.parts.of(Templates), crawl.stats
        await crawl.state.once(State.record, visits(1, first))
        recorded = await crawl.state.once(State.record, visits(2, second))
        for visited in recorded:
            if visited.is_doubtful:
                stats.count_not_observed("doubtful", visited.visit.url)
        stats.count_recorded(recorded, "page")
        part.recorded(recorded)
        names = "visits", "first_visits", "not_observed"
        assert [*map(stats.get, names)] == counted
        await part.round_ended(lambda: False)
        assert [*map(stats.get, names)] == [0, 0, len(second)]


async def test_of_very_many_new_marks_the_later_ones_count_as_the_pages_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(templates, "MOST_MARKS", 10)
    assert await taken_back(tmp_path, *template(20, 20)) == ([], [])
