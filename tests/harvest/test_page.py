"""From captures to visits: what has to be fetched, and what an archive's failures leave to do."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from hacs_crawler.archive import Capture
from hacs_crawler.archive.capture import REVISIT
from hacs_crawler.harvest.memento import BlockedError, Memento
from hacs_crawler.harvest.page import (
    MEMENTO_TRIES,
    HarvestOptions,
    PageHarvest,
    Step,
    steps,
    thinned,
)
from hacs_crawler.harvest.query import Site
from hacs_crawler.state.merging import merge
from hacs_crawler.state.page import Harvest, Page, Visit
from harvest_support import BY_LINKS, DAY, RULES, URL, Archive, Crawl, capture, failing, links_of

SOURCE = 7
TIMES = st.lists(st.integers(1, 2**31), min_size=1, max_size=80, unique=True).map(sorted)


def captured(at: int, digest: str = "A", mime: str = "text/html") -> Capture:
    return Capture("edu,foo)/", URL, at, 200, mime, digest)


def captures(*digests: str) -> list[Capture]:
    """A capture a second; "" is a revisit record without a digest, "=A" one with it."""
    return [
        captured(at, digest.removeprefix("="), "text/html" if digest[:1].isalpha() else REVISIT)
        for at, digest in enumerate(digests, 1)
    ]


HISTORIES = st.lists(st.sampled_from(["A", "B", "C", "D", "=A", "=B", ""]), max_size=30).map(
    lambda digests: captures(*digests)
)


def flags(found: list[Step]) -> str:
    """A letter a step: f where the memento is fetched."""
    return " ".join("f"[not one.is_new :] or "-" for one in found)


@pytest.mark.parametrize(
    ("digests", "expected"),
    [
        (["A"], "f"),
        (["A", "A", "A"], "f - -"),
        (["A", "B", "A"], "f f -"),
        (["A", "=A", "", "B"], "f - - f"),
        (["", "", "A"], "f - f"),
        (["A", "=B"], "f f"),
    ],
)
def test_only_content_not_had_before_is_fetched(digests: list[str], expected: str) -> None:
    assert flags(list(steps(captures(*digests), None))) == expected


def shown_by(history: list[Capture]) -> dict[int, frozenset[int]]:
    """The links of every capture: those of its content, which a revisit record took over."""
    shown, content = {}, ""
    for one in history:
        content = one.digest or content
        shown[one.at] = frozenset({0, *map(ord, content[:1]), len(content)})
    return shown


def harvested(page: Page, history: list[Capture], links: dict[int, frozenset[int]]) -> Page:
    """Record a page's captures, fetching only what has to be."""
    for step in list(steps(history, page.harvests.get(SOURCE))):
        at = step.capture.at
        harvest = Harvest(SOURCE, at, step.digest)
        shown = links[at] if step.is_new else None
        merge(page, Visit(URL, at, marks=shown, rules=RULES, harvest=harvest))
    return page


def but_for_spells(page: Page) -> tuple[Page, list[int], set[int]]:
    """The page, its updates, and its links; what is not fetched again shows none again."""
    cleared = structs.replace(page, spells=Page(URL).spells, rule_changes={})
    return cleared, list(page.update_times), set(page.spells.marks)


@given(HISTORIES)
def test_fetching_only_new_content_gives_the_same_page_as_fetching_all(
    history: list[Capture],
) -> None:
    links = shown_by(history)
    page = harvested(Page(URL), history, links)
    everything = Page(URL)
    for one in history:
        merge(everything, Visit(URL, one.at, marks=links[one.at], rules=RULES))
    page.harvests.clear()
    assert but_for_spells(page) == but_for_spells(everything)


@given(HISTORIES, st.integers(0, 30))
def test_a_harvest_broken_off_and_taken_up_again_gives_the_same_page(
    history: list[Capture], broken_after: int
) -> None:
    links = shown_by(history)
    page = harvested(Page(URL), history[:broken_after], links)
    again, at_once = harvested(page, history, links), harvested(Page(URL), history, links)
    assert but_for_spells(again) == but_for_spells(at_once)


@given(HISTORIES)
def test_there_is_a_step_for_each_capture_and_a_second_harvest_has_none(
    history: list[Capture],
) -> None:
    assert [one.capture for one in steps(history, None)] == history
    if history:
        assert not list(steps(history, Harvest(SOURCE, history[-1].at)))


@given(TIMES, st.integers(1, 90))
def test_thinning_keeps_as_many_as_asked_for_the_first_and_the_last(
    times: list[int], most: int
) -> None:
    found = [one.at for one in thinned(list(map(captured, times)), most)]
    assert len(found) == min(most, len(times))
    assert found == sorted(set(found) & set(times))
    assert found[-1] == times[-1]
    assert most == 1 or found[0] == times[0]


@given(TIMES, st.integers(2, 90))
def test_no_capture_left_out_is_farther_from_the_kept_than_these_are_from_each_other(
    times: list[int], most: int
) -> None:
    found = [one.at for one in thinned(list(map(captured, times)), most)]
    closest = min((later - at for at, later in pairwise(found)), default=2**32)
    for at in set(times) - set(found):
        assert min(abs(at - one) for one in found) <= closest


@given(TIMES, st.lists(st.sampled_from("ABC"), min_size=80, max_size=80), st.integers(1, 90))
def test_thinning_goes_by_time_alone(times: list[int], digests: list[str], most: int) -> None:
    mixed = [captured(at, digest) for at, digest in zip(times, digests, strict=False)]
    same = [captured(at) for at in times]
    assert [one.at for one in thinned(mixed, most)] == [one.at for one in thinned(same, most)]


def test_evenly_spaced_captures_are_thinned_to_evenly_spaced_ones() -> None:
    found = thinned(list(map(captured, range(1, 42))), 5)
    assert [one.at for one in found] == [1, 11, 21, 31, 41]


# One page's captures, recorded

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
    assert set(crawl.page().spells.marks) == links_of("A") | links_of("B")


def test_what_is_not_fetched_again_goes_by_the_rules_by_which_its_content_was_read() -> None:
    crawl, archive = Crawl(), Archive([capture(day) for day in (1, 2, 3)])
    recorded(crawl, archive, captures=archive.rows[:2])
    recorded(crawl, archive)  # takes it up behind them, and fetches nothing
    assert (archive.fetched, crawl.page().rule_changes) == ([1], {DAY: RULES})


def test_by_digest_nothing_is_fetched_and_another_digest_is_an_update() -> None:
    crawl, archive = Crawl(), Archive([capture(1), capture(2), capture(3, "B")])
    recorded(crawl, archive, BY_DIGEST)
    assert archive.fetched == []
    assert crawl.visited_days() == [1, 2, 3]
    assert crawl.stats == {}
    assert crawl.page().last_update == 3 * DAY


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
