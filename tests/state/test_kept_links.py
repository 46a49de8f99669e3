"""Links that are shown at the visit after theirs, too, are no evidence for churn."""

import pytest

from hacs_crawler.model import CHURNING, Rates
from hacs_crawler.state import Estimation, Page, Visit, merged
from hacs_crawler.state.rule_changes import UNNAMED
from hacs_crawler.utils.times import DAY

URL = "http://example.edu/news"
START = 1_700_000_000


def page_of(shown: list[set[int]], days: float = 1.0, controls: set[int] | None = None) -> Page:
    """A page visited at such intervals; at these visits a second after the one before."""
    page, at = Page(URL), float(START)
    for number, links in enumerate(shown):
        at += 1.0 if number in (controls or ()) else days * DAY
        page = merged(page, Visit(URL, int(at), marks=frozenset(links))).after
    return page


def rates_of(shown: list[set[int]], days: float = 1.0, controls: set[int] | None = None) -> Rates:
    return Estimation().rates([page_of(shown, days, controls)])


def news(visits: int, kept: int | None = None) -> list[set[int]]:
    """One new link a visit; the page shows the `kept` newest, or all and three more."""
    if kept is None:
        return [set(range(3 + day)) for day in range(visits)]
    return [set(range(100 + day, 100 + day + kept)) for day in range(visits)]


@pytest.mark.parametrize("days", [1 / 24, 1.0, 7.0])
@pytest.mark.parametrize("kept", [None, 2, 30])
@pytest.mark.parametrize("visits", [3, 4, 8, 40])
def test_news_that_stay_until_the_next_visit_are_time_s(
    visits: int, kept: int | None, days: float
) -> None:
    rates = rates_of(news(visits, kept), days)
    assert (rates.churn[0], rates.churning[0]) == (0.0, 0.0)


def test_news_that_stay_rank_the_higher_the_more_often_they_came() -> None:
    p = [rates_of(news(visits)).probability(1.0)[0] for visits in range(3, 12)]
    assert p == sorted(p)
    assert p[0] > 0.3


@pytest.mark.parametrize("visits", [3, 5, 8])
def test_a_page_whose_links_are_gone_at_the_next_visit_is_suspected(visits: int) -> None:
    rates = rates_of([{1, 2, 3, 10 + day} for day in range(visits)])
    assert rates.churn[0] >= CHURNING


def test_one_link_that_was_gone_at_once_is_enough_for_suspicion() -> None:
    """Of a box of five out of many, some are often seen again."""
    shown = news(4, 3)
    shown[1] |= {1}
    assert rates_of(shown).churning[0] > 0.5


def test_a_control_visit_that_differed_is_evidence_whatever_stays() -> None:
    """Such as a list of the latest visitors."""
    for quiet in range(3):
        rates = rates_of([*news(3), *news(3)[-1:] * quiet], controls={2})
        assert rates.churning[0] > 0.9


def test_other_rules_do_not_tell_what_became_of_links() -> None:
    page = Page(URL)
    for day, links in enumerate([*news(6), *({*range(100, 103 + day)} for day in range(2))]):
        rules = UNNAMED + 2 * (day > 5)
        visit = Visit(URL, START + day * DAY, marks=frozenset(links), rules=rules)
        page = merged(page, visit).after
    assert page.baselines
    assert Estimation().rates([page]).churning[0] == 0.0


def test_pages_are_told_apart_in_one_batch() -> None:
    gone_at_once = [{1, 10 + day} for day in range(4)]
    pages = [*map(page_of, (news(4), gone_at_once, [{1}] * 4, news(9, 3), [{1}]))]
    together = Estimation().rates(pages).churning
    assert (together > 0).tolist() == [False, True, False, False, False]
    alone = [Estimation().rates([page]).churning[0] for page in pages]
    assert together.tolist() == pytest.approx(alone)
