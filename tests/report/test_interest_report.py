"""The page of `hacs interest report` in a real Chromium, narrow and wide."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from browser import Browser, needs_chromium
from hacs_crawler.interest import Judged, Rules, day_of, gathered, hubs_of, judge, window_of
from hacs_crawler.report.interest import interest_html

pytestmark = needs_chromium


def judged() -> Judged:
    """Stories, pages that are steady, cut ones, and one with a burst."""
    random = np.random.default_rng(0)
    names, rows = [], []
    for page in range(40):
        kind = "news" if page < 15 else "about"
        names.append(f"https://s{page % 4}.example/{kind}/{'a-long-name-' * 6}{page}.html")
        views = random.poisson(12, 60).astype(np.float64)
        if kind == "news":
            views = np.array(
                [900 * 0.5 ** (day - 4 * page) * (day >= 4 * page) for day in range(60)]
            )
        rows.append(views)
    rows[20][30] += 4000
    table = np.array(rows)
    page, day = np.nonzero(table)
    bins = day + day_of("2026-08-01")
    return judge(
        window_of(gathered(names, page, bins, table[page, day], 1)[0], 60, None, 60), Rules()
    )


@pytest.mark.parametrize("width", [400, 1400])
def test_the_page_fits_its_window_and_the_browser_has_nothing_to_complain_of(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    found = judged()
    target = tmp_path / "report.html"
    target.write_text(
        interest_html(found, hubs_of(found, "site"), "site", 100, ["Read <b>with care"])
    )
    tab = browser.tab(width)
    tab.open(target)
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.complaints() == []
    headings = tab.run("[...document.querySelectorAll('h2')].map(one => one.innerText)")
    assert headings == [
        "Read with care",
        "Classes",
        "The sites that are news",
        "Curves",
        "What is unsure",
    ]
    assert tab.run("document.querySelector('.signs').innerText") == "Read <b>with care"
    assert tab.run("document.querySelectorAll('.drawing svg polyline').length") > 15
    wider = "one => one.scrollWidth > one.clientWidth + 1"
    assert tab.run(f"[...document.querySelectorAll('figure')].filter({wider}).length") == 0
    tab.close()
