"""One page's captures become visits: what is fetched, and what an archive's failures leave to do."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hacs_crawler.archive import Capture
from hacs_crawler.archive.capture import REVISIT
from hacs_crawler.harvest.memento import BlockedError, Memento
from hacs_crawler.harvest.page import MEMENTO_TRIES, HarvestOptions, PageHarvest
from hacs_crawler.harvest.query import Site
from harvest_support import BY_LINKS, DAY, RULES, URL, Archive, Crawl, capture, failing, links_of

LINKS = links_of("B")
BY_DIGEST = replace(BY_LINKS, by_digest=True)


def recorded(
    crawl: Crawl,
    archive: Archive,
    options: HarvestOptions = BY_LINKS,
    captures: Sequence[Capture] | None = None,
) -> PageHarvest:
    """Record an archive's captures of a page, or some of them."""
    site = Site(URL, has_subpages=False)

    async def record(session) -> PageHarvest:
        harvest = PageHarvest(session, archive, options, site)
        await harvest.record(archive.rows if captures is None else captures, crawl.page())
        return harvest

    return crawl.run(record)


def test_each_content_is_fetched_once_and_shown_again_without_asking() -> None:
    crawl, archive = Crawl(), Archive([capture(1), capture(2), capture(3, "B"), capture(4)])
    harvest = recorded(crawl, archive)
    assert archive.fetched == [1, 3]
    assert crawl.visited_days() == [1, 2, 3, 4]
    assert harvest.counts == {"visits": 4, "mementos": 2, "mementos_saved": 2}
    page = crawl.page()
    assert set(page.spells.marks) == links_of("A") | links_of("B")


def test_what_is_not_fetched_again_goes_by_the_rules_by_which_its_content_was_read() -> None:
    crawl, archive = Crawl(), Archive([capture(day) for day in (1, 2, 3)])
    recorded(crawl, archive, captures=archive.rows[:2])
    recorded(crawl, archive)  # takes it up behind them, and fetches nothing
    page = crawl.page()
    assert (archive.fetched, page.rule_changes) == ([1], {DAY: RULES})


def test_by_digest_nothing_is_fetched_and_another_digest_is_an_update() -> None:
    crawl, archive = Crawl(), Archive([capture(1), capture(2), capture(3, "B")])
    recorded(crawl, archive, BY_DIGEST)
    assert archive.fetched == []
    assert crawl.visited_days() == [1, 2, 3]
    assert crawl.stats == {}
    page = crawl.page()
    assert page.last_update == 3 * DAY


def test_a_revisit_of_what_was_never_seen_is_no_visit() -> None:
    crawl = Crawl()
    unsure = replace(capture(2, "unseen", REVISIT), status=None)  # maybe of an archived error
    recorded(crawl, Archive([capture(1), unsure, capture(3)]), BY_DIGEST)
    assert crawl.visited_days() == [1, 3]


def test_what_the_archive_failed_to_show_is_missed_but_not_what_it_will_never_show() -> None:
    crawl = Crawl()
    archive = Archive([capture(day, str(day)) for day in range(1, 8)])
    archive.instead = {day: failing(day) for day in (2, 4, 5)}
    archive.instead |= {6: Memento(6 * DAY, problem="not_html"), 7: Memento(200 * DAY, marks=LINKS)}
    harvest = recorded(crawl, archive)
    assert crawl.visited_days() == [1, 3]
    assert [one.at for one in harvest.missed] == [2 * DAY, 4 * DAY, 5 * DAY]
    assert crawl.stats["archive/mementos_failed/status"] == 3
    assert crawl.stats["archive/mementos_failed/moved"] == 1, "of a time that was not asked for"


def test_content_that_fails_again_and_again_is_asked_for_no_more() -> None:
    days = range(1, MEMENTO_TRIES + 4)
    archive = Archive([capture(day) for day in days], {day: failing(day) for day in days})
    crawl = Crawl()
    recorded(crawl, archive)
    assert archive.fetched == list(days[:MEMENTO_TRIES])
    assert crawl.stats["archive/mementos_failed/like_others"] == 3


def test_at_most_so_many_captures_are_recorded_spread_over_time() -> None:
    crawl, archive = Crawl(), Archive([capture(day) for day in range(1, 10)])
    recorded(crawl, archive, replace(BY_LINKS, max_captures=3))
    assert crawl.visited_days() == [1, 5, 9]


def test_a_page_that_is_blocked_ends_its_harvest() -> None:
    archive = Archive([capture(day, str(day)) for day in range(1, 30)])

    async def blocked(_: Capture) -> Memento:
        raise BlockedError("by robots.txt")

    archive.memento = blocked
    with pytest.raises(BlockedError):
        recorded(Crawl(), archive)


@pytest.mark.parametrize(
    ("shown", "is_done", "days"),
    [
        (Memento(2 * DAY, marks=LINKS), True, [2]),
        (failing(2), False, []),
        (Memento(2 * DAY, problem="not_html"), True, []),
        (Memento(200 * DAY, marks=LINKS), True, []),
    ],
    ids=["shown", "failing", "never", "moved"],
)
def test_a_capture_that_was_missed_is_tried_until_it_is_clear_what_it_is(
    shown: Memento, is_done: bool, days: list[int]
) -> None:
    crawl, archive = Crawl(), Archive([capture(2, "B")], {2: shown})
    site = Site(URL, has_subpages=False)

    async def retry(session) -> PageHarvest:
        harvest = PageHarvest(session, archive, BY_LINKS, site)
        await harvest.retry(archive.rows)
        return harvest

    assert (crawl.run(retry).missed == []) is is_done
    assert crawl.visited_days() == days
