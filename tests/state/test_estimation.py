"""What the visits of a page say of it: what is churn, and what became of new links."""

from array import array
from math import log
from random import Random

import pytest

from hacs_crawler.model import CHURNING, LinkLifetime, Rates
from hacs_crawler.state import Estimation, Page, Visit, merged, noun_of
from hacs_crawler.state.estimation import histories, lifetimes
from hacs_crawler.state.merging import RECENT_VISITS, merge, merge_pages
from hacs_crawler.state.rule_changes import UNNAMED
from hacs_crawler.utils.times import DAY
from hacs_crawler.watch.items import item_rules
from hacs_crawler.watch.settings import mark_rules

URL = "http://example.edu/news"
START = 1_700_000_000


# Links that are shown at the visit after theirs, too, are no evidence for churn


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
    assert rates_of([{1, 2, 3, 10 + day} for day in range(visits)]).churn[0] >= CHURNING


def test_one_link_that_was_gone_at_once_is_enough_for_suspicion() -> None:
    """Of a box of five out of many, some are often seen again."""
    shown = news(4, 3)
    shown[1] |= {1}
    assert rates_of(shown).churning[0] > 0.5


@pytest.mark.parametrize("days", [9, 11, 37])
def test_news_are_no_churn_that_were_all_replaced_in_a_break(days: int) -> None:
    page = Page(URL)
    for day in (*range(8), 7 + days, 8 + days, 9 + days):
        merge(page, Visit(URL, START + day * DAY, marks=frozenset(range(day, day + 10))))
    rates = Estimation().rates([page])
    assert (rates.churning[0] < 0.01) & (rates.rate_per_day[0] > 1.0)


def test_a_control_visit_that_differed_is_evidence_whatever_stays() -> None:
    """Such as a list of the latest visitors."""
    for quiet in range(3):
        assert rates_of([*news(3), *news(3)[-1:] * quiet], controls={2}).churning[0] > 0.9


@pytest.mark.parametrize("other_days", [(6, 7), (2, 3)])
def test_other_rules_do_not_tell_what_became_of_links(other_days: tuple[int, ...]) -> None:
    page = Page(URL)
    for day in range(other_days[0] + 4):
        links = range(day + 100 * (day in other_days), day + 10 + 100 * (day in other_days))
        rules = UNNAMED + 2 * (day in other_days)
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


# Marks that somebody chose: every update is time's, unless a control visit differed


def chosen(watch: str, times: list[float]) -> tuple[float, float]:
    """The churn, and the rate, of a page whose only mark differed at each visit, times in seconds."""
    rules = mark_rules(watch)
    page = Page(URL)
    for number, at in enumerate(times):
        visit = Visit(URL, START + int(at), marks=frozenset({number + 1}), rules=rules.fingerprint)
        page = merged(page, visit).after
    rates = Estimation().rates([page])
    return float(rates.churn[0]), float(rates.rate_per_day[0])


@pytest.mark.parametrize("watch", ["items", "css:.price"])
def test_a_price_that_differs_at_every_daily_visit_is_no_churn(watch: str) -> None:
    share, rate = chosen(watch, [day * DAY for day in range(9)])
    assert share == pytest.approx(0.0, abs=1e-9)
    assert rate > 0.9


def test_items_of_crawls_that_follow_each_other_at_once_are_no_churn() -> None:
    share, rate = chosen("items", [0, 5, 10, 15, 20])
    assert share == pytest.approx(0.0, abs=1e-9)
    assert rate > 10.0


def test_a_selection_that_differs_at_a_control_visit_is_churn() -> None:
    share, _ = chosen("css:.price", [0, DAY, DAY + 2, 2 * DAY, 2 * DAY + 2])
    assert share > 0.5


def test_the_rules_of_items_are_known_by_their_number() -> None:
    pages = []
    for rules in (item_rules(), mark_rules("css:.price")):
        page = Page(URL)
        visit = Visit(URL, START, marks=frozenset({1}), rules=rules.fingerprint)
        pages.append(merged(page, visit).after)
    assert [noun_of(page.latest_rules) for page in pages] == ["item", "mark"]


# What became of the new links of each visit: hand-made histories


UNKNOWN, LASTING, PASSING, FLEETING = LinkLifetime


def daily(*shown: set[int] | None) -> Page:
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
    assert lifetimes([daily(*shown)]).tolist() == expected


def test_a_price_lasted_that_two_visits_in_a_row_showed() -> None:
    """Whichever comes next takes its place; of one that was gone at once nothing is known."""
    page = Page(URL)
    for day, price in enumerate([1, 2, 2, 3, 2, 2, 4], start=1):
        marks = frozenset({price})
        merge(page, Visit(URL, day * DAY, marks=marks, rules=7))
    expected = [UNKNOWN, LASTING, UNKNOWN, UNKNOWN, LASTING, UNKNOWN, UNKNOWN]
    assert lifetimes([page]).tolist() == expected
    links = daily({1}, {2}, {1})
    assert lifetimes([links, page, links]).tolist() == [
        *lifetimes([links]),
        *expected,
        *lifetimes([links]),
    ]


def test_many_pages_at_once_are_what_each_is_alone() -> None:
    pages = [daily(), daily({1}, {2}, {1}), daily(None), daily(set()), daily({1}, {1, 2})]
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


def test_where_only_the_template_was_new_a_gap_is_quiet_and_no_baseline() -> None:
    """A site changes its template every other day; visits that find more are updates."""
    rate = 0.2  # of days with news of the page's own
    draw, text, template = Random(5), 0, 0
    page, only_template = Page(URL), []
    for day in range(400):
        at = START + day * DAY
        is_news, is_template = draw.random() < rate, day % 2 == 1
        text, template = text + is_news, template + is_template
        marks = frozenset({2 * text, 2 * template + 1})
        merge(page, Visit(page.url, at, marks=marks, rules=7))
        if is_template and not is_news:
            only_template.append(at)
    estimation = Estimation("mle", fade_days=float("inf"))
    quiet = merge_pages(page, Page(page.url, echoes=array("I", only_template)))
    assert estimation.rate_per_day(quiet) == pytest.approx(-log(1 - rate), rel=0.15)
