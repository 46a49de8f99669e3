"""Marks that somebody chose to watch: every update is time's, unless a control visit differed."""

import pytest

from hacs_crawler.state import Estimation, Page, Visit, merged, noun_of
from hacs_crawler.utils.times import DAY
from hacs_crawler.watch.items import item_rules
from hacs_crawler.watch.settings import mark_rules

URL = "http://shop.example/list"
START = 1_700_000_000


def churn(watch: str, times: list[float]) -> tuple[float, float]:
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
    share, rate = churn(watch, [day * DAY for day in range(9)])
    assert share == pytest.approx(0.0, abs=1e-9)
    assert rate > 0.9


def test_items_of_crawls_that_follow_each_other_at_once_are_no_churn() -> None:
    share, rate = churn("items", [0, 5, 10, 15, 20])
    assert share == pytest.approx(0.0, abs=1e-9)
    assert rate > 10.0


def test_a_selection_that_differs_at_a_control_visit_is_churn() -> None:
    share, _ = churn("css:.price", [0, DAY, DAY + 2, 2 * DAY, 2 * DAY + 2])
    assert share > 0.5


def test_the_rules_of_items_are_known_by_their_number() -> None:
    pages = []
    for rules in (item_rules(), mark_rules("css:.price")):
        page = Page(URL)
        visit = Visit(URL, START, marks=frozenset({1}), rules=rules.fingerprint)
        pages.append(merged(page, visit).after)
    assert [noun_of(page.latest_rules) for page in pages] == ["item", "mark"]
