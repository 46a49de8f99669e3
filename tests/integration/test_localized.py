"""HACS_ESTIMATOR = "weibull" in a crawl."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from scrapy.settings import Settings

from hacs_crawler.config import Config
from hacs_crawler.model import LOCALIZED, is_trend, unpacked_trend
from hacs_crawler.ranking.plan import make_plan
from hacs_crawler.state.address import open_store
from hacs_crawler.state.database import State
from hacs_crawler.state.page import Visit
from hacs_crawler.utils.times import DAY
from integration_support import Project
from servers import Site

START = int(time.time()) - 60 * DAY


def history(url: str, *updates: int) -> list[Visit]:
    """A visit a day for 60 days, of which those found a link."""
    return [
        Visit(url, START + day * DAY, marks=frozenset(at for at in updates if at <= day))
        for day in range(60)
    ]


@pytest.mark.parametrize("estimator", LOCALIZED)
def test_a_crawl_ranks_by_localized_rates_and_falls_back_where_updates_are_few(
    site: Site, project: Project, write_state: Callable[..., None], estimator: str
) -> None:
    # as many updates each; one page fell asleep, one woke
    asleep, few, awake = (f"{site.url}/~{name}/" for name in "abc")
    for name in "abc":
        site.set(f"/~{name}/")
    write_state(*history(asleep, *range(2, 21, 2)), *history(awake, *range(40, 59, 2)))
    write_state(*history(few, 10, 30))
    settings = {"HACS_ESTIMATOR": estimator, "CONCURRENT_REQUESTS": 1}
    crawl = project.crawl([asleep, few, awake], "-a", "level=homepage", **settings)
    assert crawl.exit_status == 0
    assert "Traceback" not in crawl.log
    pages = [project.page(url) for url in (asleep, few, awake)]
    assert [is_trend(page.log_sd) for page in pages] == [True, False, True]

    if estimator != "matloff":  # which knows no trend
        assert pages[2].rate > 2 * pages[0].rate
        site.visited().clear()
        crawl = project.crawl([asleep, few, awake], "-a", "level=homepage", **settings)
        assert next(item["url"] for item in crawl.items) == awake


@pytest.mark.parametrize("estimator", LOCALIZED)
def test_p_is_of_the_updates_expected_since_the_last_visit(
    site: Site, project: Project, write_state: Callable[..., None], estimator: str
) -> None:
    url = f"{site.url}/~a/"
    site.set("/~a/")
    write_state(*history(url, 3, 9, 20, 24, 30, 47))
    project.crawl([url], "-a", "level=homepage", HACS_ESTIMATOR=estimator)
    page = project.page(url)
    points, shape = (float(one) for one in unpacked_trend(page.log_sd))
    watched = points * shape / page.rate
    store = open_store(project.state, "hacs", Path())
    chosen = Config.from_settings(Settings({"HACS_ESTIMATOR": estimator}))
    plan = make_plan(State(store, chosen.estimation), chosen.ranking, page.visits[-1] + 12 * DAY)
    store.close()
    expected = points * ((watched + 12) / watched) ** shape - points
    assert plan.p.tolist() == pytest.approx([1 - math.exp(-expected)], rel=1e-6)
    assert plan.rate_per_day.tolist() == pytest.approx([page.rate])
