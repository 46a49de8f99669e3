"""States for the tests of the report: a made-up year of visits to a few sites, and what goes wrong."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page
from scrapy.settings import Settings

from hacs_crawler.config import Config
from hacs_crawler.links import page_id_of
from hacs_crawler.ranking.plan import plan_of, read_rows
from hacs_crawler.report.html import html, report_data
from hacs_crawler.state import Estimation, MemoryStore, News, Prediction, State, Visit
from hacs_crawler.utils.times import DAY

START = 1_750_000_000
RUNS = 25
DAYS_BETWEEN = 9
NOW = START + (RUNS + 1) * DAYS_BETWEEN * DAY


def config_of(**settings: Any) -> Config:
    """The settings of that name, without their prefix."""
    return Config.from_settings(
        Settings({f"HACS_{name.upper()}": value for name, value in settings.items()})
    )


def empty_state(**estimation: Any) -> State:
    return State(MemoryStore(), Estimation(**estimation))


def busy_state(config: Config, sites: int = 40, pages_a_site: int = 4) -> State:
    """A state after some crawls of the same pages, by two policies in turn.

    Pages are updated at rates from daily to yearly.
    One page in twenty is gone from the middle on, another one in twenty never answers.
    """
    rng = np.random.default_rng(5)
    state = empty_state()
    urls = [
        f"http://s{site:02}.example.edu/~a/{f'p{page}.html' if page else ''}"
        for site in range(sites)
        for page in range(pages_a_site)
    ]
    rate = dict(zip(urls, rng.lognormal(np.log(1 / 40), 1.2, len(urls)).tolist(), strict=True))
    links = {url: [1] for url in urls}
    url_of = {page_id_of(url): url for url in urls}
    label = config.ranking.label(config.estimation)
    labels = label, replace(label, policy="last-obs")
    for label in labels:
        state.keep_label(label)
    for run in range(RUNS):
        now = START + run * DAYS_BETWEEN * DAY
        for url in urls:
            more = int(rng.poisson(rate[url] * DAYS_BETWEEN))
            links[url] += range(len(links[url]) + 1, len(links[url]) + 1 + more)
        known = read_rows(state)
        plan = plan_of(*known, state, config.ranking, now)
        planned = zip(
            (url_of[key] for key in plan.page_ids.tolist()),
            plan.p.tolist(),
            plan.days_since_visit.tolist(),
            strict=True,
        )
        new = [url for url in urls[run::RUNS] if page_id_of(url) not in known[0]]
        first = zip(new, [1.0] * len(new), [np.inf] * len(new), strict=True)
        visits = []
        for number, (url, p, days) in enumerate((*planned, *first)):
            prediction = Prediction(labels[run % 2].number, now, p, 0.1, days, churn=0.0)
            place, news = urls.index(url), News.SEEN
            if place % 20 == 7 and run > RUNS / 2:
                news = News.GONE
            elif place % 20 == 13:
                news = News.FAILED
            shown = frozenset(links[url]) if news is News.SEEN else None
            visits.append(
                Visit(url, now + number, news, shown, prediction=prediction, bytes=20_000)
            )
        state.record(visits)
    return state


def first_run(unranked: int = 0) -> State:
    """A state after a run that ranked 12 pages, and visited more."""
    state, began = empty_state(), NOW - 3600
    config = config_of()
    label = config.ranking.label(config.estimation)
    state.keep_label(label)
    ranked = Prediction(label.number, began, 1.0, 0.1, np.inf, 0.0)
    for number in range(12 + unranked):
        url, prediction = f"http://s{number}.example.edu/~a/", ranked if number < 12 else None
        marks = frozenset({1, number})
        state.record([Visit(url, began + number, marks=marks, prediction=prediction)])
    return state


def data_of(state: State, config: Config, limit: int = 200) -> dict[str, Any]:
    """What a report of the state shows, at the time `NOW`."""
    return report_data(state, config, NOW, limit)


def write_report(target: Path, state: State, config: Config) -> Path:
    target.write_text(html(data_of(state, config)), "utf-8")
    return target


def settle(tab: Page) -> None:
    """Wait until what was observed of sizes has been drawn."""
    tab.evaluate(
        "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"
    )
