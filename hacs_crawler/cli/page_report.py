"""What `hacs show` says of a page, gathered from the state."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from hacs_crawler.cli.period import PeriodRates
from hacs_crawler.cli.visit_cost import VisitCost
from hacs_crawler.config import Config
from hacs_crawler.links import page_id_of, site_id
from hacs_crawler.model import LOCALIZED, LinkLifetime, bayes_quantiles, gaps_between, is_trend
from hacs_crawler.ranking.next_visit import Forecast, forecast_of
from hacs_crawler.ranking.signals import PageSignals, signals_of_page
from hacs_crawler.state import (
    VISITS_OF_A_RATE,
    Ids,
    Page,
    Rows,
    State,
    baselines_of,
    burst_since,
    histories,
    lifetimes,
)

INTERVAL: Final = 0.8
"""How much of the posterior lies in the interval shown."""


@dataclass(frozen=True, slots=True)
class PageReport:
    """What is known of a page.

    `updated` says of each visit whether it found an update. `rate_per_day` is estimated anew, `interval`
    holds `INTERVAL` of its posterior; None where it has none, or where the page may churn. `spread` is
    the rate's log_sd, or how it goes on (`model.packed_trend`). `churn` and `churning` are as in
    `model.Rates`, `burst_since` as in `state.burst_since`, `confirmed` counts the updates whose links
    were seen again, and all updates for which that can be told. `siblings` are the other pages known of
    its site, `sibling_correlation` how often pages of a site are updated together (see
    `model.sibling_correlation`).
    """

    page: Page
    updated: list[bool]
    rate_per_day: float
    spread: float
    interval: tuple[float, float] | None
    churn: float
    churning: float
    burst_since: int | None
    confirmed: tuple[int, int]
    forecast: Forecast
    siblings: int
    sibling_correlation: float
    signals: list[PageSignals] = field(default_factory=list)
    period: PeriodRates | None = None
    set_aside: int = 0
    """How many visits are later than now, and not in `page`."""
    cost: VisitCost = field(default_factory=VisitCost)

    @property
    def rate_is_prior(self) -> bool:
        """Whether nothing was learned of the page's own rate yet."""
        return len(self.page.visits) < VISITS_OF_A_RATE

    def estimator(self, chosen: str) -> str:
        """Return what the rate comes from: bayes where a localized rate has too few updates."""
        return "bayes" if _fell_back(chosen, self.spread) else chosen


def report_of(
    page: Page, page_ids: Ids, rows: Rows, state: State, config: Config, now: float
) -> PageReport:
    """Return what is known of a page; `page_ids` and `rows` are those of all pages."""
    estimation = state.estimation
    _, updated, _ = histories([page])
    visit_days, counted, offsets = histories([page], estimation.updates)
    rates, found = estimation.rates([page]), lifetimes([page])
    is_again = (found == LinkLifetime.LASTING) | (found == LinkLifetime.PASSING)
    spread, interval = float(rates.log_sd[0]), None
    # the quantiles are those of a page whose every update is time's
    is_time_s = not rates.churning[0]
    if is_time_s and (estimation.has_posterior or _fell_back(estimation.estimator, spread)):
        gaps = gaps_between(
            visit_days, counted, offsets, estimation.fade_days, baselines_of([page])
        )
        tail = (1 - INTERVAL) / 2
        low, high = bayes_quantiles(gaps, estimation.prior, (tail, 1 - tail))[0].tolist()
        interval = (low, high)
    site = site_id(page.url)
    return PageReport(
        page=page,
        updated=updated.tolist(),
        rate_per_day=float(rates.rate_per_day[0]),
        spread=spread,
        interval=interval,
        churn=float(rates.churn[0]),
        churning=float(rates.churning[0]),
        burst_since=burst_since(page, estimation) if estimation.has_bursts else None,
        confirmed=(int(is_again.sum()), int((found != LinkLifetime.UNKNOWN).sum())),
        forecast=forecast_of(page_id_of(page.url), page_ids, rows, state, config.ranking, now),
        siblings=int(np.count_nonzero(rows["site"] == site)) - 1,
        signals=signals_of_page(
            state.store,
            page_id_of(page.url),
            rows[page_ids == page_id_of(page.url)],
            estimation,
        ),
        sibling_correlation=estimation.sibling_correlation,
        cost=VisitCost.read(state, page.url),
    )


def _fell_back(estimator: str, spread: float) -> bool:
    return estimator in LOCALIZED and not is_trend(spread)
