"""What one change of a template tells of a page: that nothing of its own was new."""

from array import array
from math import log
from random import Random

import pytest

from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.merging import merge, merge_pages
from hacs_crawler.state.page import Page, Visit
from hacs_crawler.utils.times import DAY

RATE = 0.2
"""Of days with news of the page's own, true."""


def test_where_only_the_template_was_new_a_gap_is_quiet_and_no_baseline() -> None:
    """A site changes its template every other day; visits that find more are updates."""
    draw, text, template = Random(5), 0, 0
    page, only_template = Page("http://a.example/"), []
    for day in range(400):
        at = 1_700_000_000 + day * DAY
        is_news, is_template = draw.random() < RATE, day % 2 == 1
        text, template = text + is_news, template + is_template
        marks = frozenset({2 * text, 2 * template + 1})
        merge(page, Visit(page.url, at, marks=marks, rules=7))
        if is_template and not is_news:
            only_template.append(at)
    estimation = Estimation("mle", fade_days=float("inf"))
    times = array("I", only_template)
    quiet = merge_pages(page, Page(page.url, echoes=times))
    true = -log(1 - RATE)
    assert estimation.rate_per_day(quiet) == pytest.approx(true, rel=0.15)
