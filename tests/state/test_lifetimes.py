"""What became of the new links of each visit: hand-made histories."""

import pytest

from hacs_crawler.model import LinkLifetime
from hacs_crawler.state.estimation import histories, lifetimes
from hacs_crawler.state.merging import RECENT_VISITS, merge
from hacs_crawler.state.page import Page, Visit
from hacs_crawler.utils.times import DAY

URL = "http://example.edu/~a/"
UNKNOWN, LASTING, PASSING, FLEETING = LinkLifetime


def page_of(*shown: set[int] | None) -> Page:
    """A page that was visited daily and showed these links; None for a visit without links, as a 304."""
    page = Page(URL)
    for day, links in enumerate(shown, start=1):
        merge(page, Visit(URL, day * DAY, marks=None if links is None else frozenset(links)))
    return page


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ([{1}, {1, 2}, {1, 2}, {1, 2}], [LASTING, LASTING, UNKNOWN, UNKNOWN]),
        ([{1}, {1, 2}, {1, 2}, {1}], [LASTING, PASSING, UNKNOWN, UNKNOWN]),
        ([{1}, {1, 2}, {1}, {1}], [LASTING, FLEETING, UNKNOWN, UNKNOWN]),
        ([{1}, {1, 2}, {1}, {1, 2}], [LASTING, LASTING, UNKNOWN, UNKNOWN]),
        ([{1}, {2}, {3}, {4}], [FLEETING, FLEETING, FLEETING, UNKNOWN]),
        ([{1}, {1, 2, 3}, {1, 3}, {1}], [LASTING, PASSING, UNKNOWN, UNKNOWN]),
        ([{1}, {1, 2, 3}, {1, 3}, {1, 2}], [LASTING, LASTING, UNKNOWN, UNKNOWN]),
        ([{1}, {1, 2}, None, {1, 2}], [LASTING, LASTING, UNKNOWN, UNKNOWN]),
        ([{1}, {1, 2}, None, None], [LASTING, UNKNOWN, UNKNOWN, UNKNOWN]),
        ([{1}], [UNKNOWN]),
        ([set(), {1}, {1}], [UNKNOWN, LASTING, UNKNOWN]),
        ([None, None], [UNKNOWN, UNKNOWN]),
        ([], []),
    ],
)
def test_an_update_lasts_passes_or_is_fleeting(
    shown: list[set[int] | None], expected: list[LinkLifetime]
) -> None:
    assert lifetimes([page_of(*shown)]).tolist() == expected


def test_a_price_lasted_that_two_visits_in_a_row_showed() -> None:
    """Whichever comes next takes its place; of one that was gone at once nothing is known."""
    page = Page(URL)
    for day, price in enumerate([1, 2, 2, 3, 2, 2, 4], start=1):
        marks = frozenset({price})
        merge(page, Visit(URL, day * DAY, marks=marks, rules=7))
    expected = [UNKNOWN, LASTING, UNKNOWN, UNKNOWN, LASTING, UNKNOWN, UNKNOWN]
    assert lifetimes([page]).tolist() == expected
    links = page_of({1}, {2}, {1})
    assert lifetimes([links, page, links]).tolist() == [
        *lifetimes([links]),
        *expected,
        *lifetimes([links]),
    ]


def test_many_pages_at_once_are_what_each_is_alone() -> None:
    pages = [page_of(), page_of({1}, {2}, {1}), page_of(None), page_of(set()), page_of({1}, {1, 2})]
    expected = [one for page in pages for one in lifetimes([page]).tolist()]
    assert lifetimes(pages).tolist() == expected
    assert len(expected) == len(histories(pages)[0])
    assert lifetimes([]).tolist() == []


def test_the_fate_of_what_a_thinned_visit_brought_is_that_of_the_visit_that_is_kept() -> None:
    days = RECENT_VISITS + 100
    page = Page(URL)
    for day in range(1, days + 1):
        merge(page, Visit(URL, day * DAY, marks=frozenset({0, *range(1, day // 20 + 1)})))
    found = lifetimes([page])
    assert len(page.visits) == len(found) < days
    kept = [page.visits.index(at) for at in page.update_times if at in page.visits]
    assert {found[place] for place in kept} == {LASTING}
