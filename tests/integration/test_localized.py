"""HACS_ESTIMATOR = "weibull" in a crawl."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from hacs_crawler.model import LOCALIZED
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
    assert all(page.rate > 0 for page in pages)

    if estimator != "matloff":  # which knows no trend
        assert pages[2].rate > 2 * pages[0].rate
        site.visited().clear()
        crawl = project.crawl([asleep, few, awake], "-a", "level=homepage", **settings)
        assert crawl.exit_status == 0
        assert next(path for path in site.visited() if path.startswith("/~")) == "/~c/"
