"""Pages of a window, judged; and hubs, the sites and folders of news, scored by their pages."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import numpy as np
import scipy

from hacs_crawler.lab.interest.curves import Curves, fit_anchored, rise_of
from hacs_crawler.lab.interest.views import Window
from hacs_crawler.links import check_url
from hacs_crawler.ranking.instant import ListedHub
from hacs_crawler.utils.arrays import BoolArray, FloatArray, IndexArray

KINDS: Final = ("site", "folder")
_DATED: Final = re.compile(r"\d+(?:[-_.]\d+)*").fullmatch
PAGES_WEIGHT: Final = 3.0
# How the paper weighs a site's share of temporal pages against its share of views on them.
VIEWS_WEIGHT: Final = 2.0
# A site's curve is averaged with this many usual pages, as the curves of a few pages are unreliable.
USUAL_PAGES: Final = 5.0
_ROUNDING: Final = 1e-9
_LEAST_SIGMA: Final = 0.05
_STRENGTHS: Final = np.geomspace(0.5, 200, 40)
_DIGITS: Final = 7
# The paper's n: interest that lasts at most this many days is short.
BEST_DAYS: Final = 3
# A page is temporal if its concentration is more: on labelled windows, of those with a spike 97 %
# are above and of those without 99.5 % below (benchmarks/README.md).
CONCENTRATION: Final = 0.4


def concentration_of(views: FloatArray) -> FloatArray:
    """Return the concentration of each page's views, (n, days), on its best days, from 0 (even) to 1.

    It is (s - e) / (1 - e), with s the share of the views on the best three days, and e the share of
    three days in the time since the page's rise. The top day is capped at the next best, unless it is
    the only day with views, as a single robot makes one high day. nan for pages without views and for
    pages that rose in the last three days.
    """
    views = np.asarray(views, dtype=np.float64)
    days = views.shape[1]
    if days > 1:
        next_best = np.partition(views, -2, axis=1)[:, -2:-1]
        views = np.where(next_best > 0, np.minimum(views, next_best), views)
    total = views.sum(axis=1)
    best = np.sort(views, axis=1)[:, max(days - BEST_DAYS, 0) :].sum(axis=1)
    since_rise = days - rise_of(views, BEST_DAYS)
    even = np.minimum(BEST_DAYS / since_rise, 1.0)
    is_defined = (total > 0) & (even < 1)
    share = np.divide(best, total, out=np.full(len(views), np.nan), where=is_defined)
    return np.asarray((share - even) / np.where(is_defined, 1 - even, 1.0), np.float64)


def temporal_by_days(views: FloatArray) -> BoolArray:
    """Return which pages of views (n, days) are temporal, by the concentration of their views."""
    return np.asarray(concentration_of(views) > CONCENTRATION, np.bool_)


@dataclass(frozen=True, slots=True)
class JudgedWindow:
    """A window and the judgement of its pages."""

    window: Window
    curves: Curves
    is_temporal: BoolArray

    @property
    def totals(self) -> FloatArray:
        """Views of each page in the window."""
        totals: FloatArray = self.window.views.sum(axis=1)
        return totals

    def columns(self) -> dict[str, Any]:
        """Return a column for each fact of the pages: `phi` is at 3 days, nan if undefined."""
        numbers = {
            **self.curves._asdict(),
            "phi": self.curves.phi(BEST_DAYS),
            "views": self.totals,
            "concentration": concentration_of(self.window.daily),
        }
        rounded = {
            name: [float(f"{value:.{_DIGITS}g}") for value in values.tolist()]
            for name, values in numbers.items()
        }
        return {"page": self.window.pages, **rounded, "temporal": self.is_temporal}


def judge(
    window: Window, on_pages: Callable[[int, int], None] = lambda _done, _total: None
) -> JudgedWindow:
    """Fit the pages of a window, and find the temporal pages.

    `on_pages` gets the finished and the total number of pages with views.
    """
    curves = fit_anchored(window.views, window.bins_a_day, on_pages)
    return JudgedWindow(window, curves, temporal_by_days(window.daily))


@dataclass(frozen=True, slots=True)
class SiteScores:
    """Scores of sites, an element a site. `temporal` counts the temporal ones of its `pages`.

    `score` is the paper's, with both shares shrunk towards the shares of all sites, which give
    `usual_score`.
    """

    pages: IndexArray
    temporal: IndexArray
    score: FloatArray
    usual_score: float

    def best(self, most: int | None = None) -> IndexArray:
        """Return the numbers of the sites with a temporal page, best first, at most `most`.

        Sites with a lower score than all pages together are left out. If scores are equal, the site with
        more pages is first.
        """
        order = np.lexsort((-self.pages, -self.score))
        least = self.usual_score * (1 - _ROUNDING)
        return order[(self.temporal[order] > 0) & (self.score[order] >= least)][:most]


def score_sites(
    site_of: IndexArray,
    is_temporal: BoolArray,
    views: FloatArray,
    count: int,
    more: float | None = None,
) -> SiteScores:
    """Score `count` sites by their pages: page i is of site `site_of[i]` and has views[i] in all.

    score = (3 * share of temporal pages + 2 * share of views on temporal pages) / 5 (Wang et al., IJCNLP
    2008, section 4), after each site got `more` pages (by default `pages_to_add`) with the share of
    temporal pages, and of their views, of all sites: a site of one page is little evidence, and raw
    shares would fill a list with such sites.
    """

    def by_site(weight: FloatArray | BoolArray) -> FloatArray:
        return np.bincount(site_of, weights=weight, minlength=count).astype(np.float64)

    n, k = by_site(np.ones(site_of.size)), by_site(is_temporal)
    all_views, theirs = by_site(views), by_site(views * is_temporal)
    page_share = np.divide(k, n, out=np.full(count, np.nan), where=n > 0)
    view_share = np.divide(theirs, all_views, out=page_share.copy(), where=all_views > 0)
    more = pages_to_add(k, n) if more is None else more
    usual_pages = k.sum() / max(n.sum(), 1.0)
    usual_views = theirs.sum() / all_views.sum() if all_views.sum() > 0 else usual_pages
    shrunk_pages = (k + more * usual_pages) / (n + more)
    shrunk_views = (n * np.nan_to_num(view_share) + more * usual_views) / (n + more)
    return SiteScores(
        n.astype(np.int64),
        k.astype(np.int64),
        _score(shrunk_pages, shrunk_views),
        float(_score(np.array(usual_pages), np.array(usual_views))),
    )


def pages_to_add(temporal: FloatArray, pages: FloatArray) -> float:
    """Return how many usual pages, 0.5 to 200, each site's own pages are weighed against.

    The most likely strength of a beta-binomial distribution over the sites, with the mean of all their
    pages: few if most sites are entirely of one kind, many if sites are alike.
    """
    seen = pages > 0
    k, n = temporal[seen], pages[seen]
    mean = k.sum() / n.sum() if n.sum() else 0.0
    if not 0 < mean < 1:
        return 1.0
    a, b = mean * _STRENGTHS[:, None], (1 - mean) * _STRENGTHS[:, None]
    likelihood = (scipy.special.betaln(k + a, n - k + b) - scipy.special.betaln(a, b)).sum(axis=1)
    return float(_STRENGTHS[np.argmax(likelihood)])


def interest_in_sites(
    site_of: IndexArray, is_temporal: BoolArray, curves: Curves, views: FloatArray, count: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Pool the curves of the temporal pages of `count` sites; page i is of site `site_of[i]`.

    Returns mu, sigma and worth of the sites: mean and standard deviation of ln(days) of all reading of a
    site's temporal pages, and how often one of them is read, relative to the mean of all sites. A site's
    reading is a mixture of its pages' log-normal curves, of equal weight, whose logarithm has the mean
    E[mu] and the variance E[sigma²] + Var[mu]. All three means are shrunk to those of all temporal
    pages. If no page is temporal, all sites have mu 0, sigma 1 and worth 1.
    """
    is_used = is_temporal & np.isfinite(curves.mu) & np.isfinite(curves.sigma)
    if not is_used.any():
        return np.zeros(count), np.ones(count), np.ones(count)
    sites, mu, sigma = site_of[is_used], curves.mu[is_used], curves.sigma[is_used]
    number = np.bincount(sites, minlength=count)

    def pooled(values: FloatArray) -> FloatArray:
        own = np.bincount(sites, weights=values, minlength=count)
        mean: FloatArray = (own + USUAL_PAGES * values.mean()) / (number + USUAL_PAGES)
        return mean

    mean_mu = pooled(mu)
    variance = pooled(sigma**2 + mu**2) - mean_mu**2
    sigma = np.sqrt(np.maximum(variance, _LEAST_SIGMA**2))
    return mean_mu, sigma, pooled(views[is_used]) / views[is_used].mean()


def _score(page_share: FloatArray, view_share: FloatArray) -> FloatArray:
    whole = PAGES_WEIGHT + VIEWS_WEIGHT
    return (PAGES_WEIGHT * page_share + VIEWS_WEIGHT * view_share) / whole


def hub_of(page: str, kind: str) -> str:
    """Return the URL of the site or the folder that a page lies in.

    A folder is the page's path without its last part, cut at the first part that is
    a number or a date: a news site's dated folders are others tomorrow.
    """
    parts = urlsplit(page)
    root = f"{parts.scheme}://{parts.netloc}/" if parts.netloc else "/"
    if kind == "site":
        return root
    for part in parts.path.split("/")[1:-1]:
        if _DATED(part):
            break
        root += f"{part}/"
    return root


def hub_lines(judged: JudgedWindow, kind: str, most: int) -> list[str]:
    """Return lines of the best hubs of a window's pages, best first, at most `most`.

    Hubs that cannot be seeds, as their pages are paths without a site, are left out.
    """
    numbers: dict[str, int] = {}
    hub_of_page = np.array(
        [numbers.setdefault(hub_of(page, kind), len(numbers)) for page in judged.window.pages],
        dtype=np.int64,
    )
    urls, totals = list(numbers), judged.totals
    scores = score_sites(hub_of_page, judged.is_temporal, totals, len(urls))
    interest = interest_in_sites(hub_of_page, judged.is_temporal, judged.curves, totals, len(urls))
    lines = []
    for index in scores.best(most).tolist():
        if check_url(urls[index]) is None:
            hub = ListedHub(urls[index], *(float(column[index]) for column in interest))
            pages = f"{scores.temporal[index]} of {scores.pages[index]} pages temporal"
            lines.append(hub.line(f"{scores.score[index]:.3f}: {pages}"))
    return lines
