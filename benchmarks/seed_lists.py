"""How well seed lists of news are found (Wang et al., IJCNLP 2008, Table 1), on synthetic webs.

    python benchmarks/seed_lists.py      # half a minute of CPU time

The webs have the paper's proportions, and it is known which of their pages are news.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from hacs_crawler.lab.interest.curves import (
    Curves,
    Quadratic,
    best_of_starts,
    bins_to_half,
    by_block,
    fit_anchored,
    lognormal_cumulative,
    rise_of,
)
from hacs_crawler.lab.interest.hubs import BEST_DAYS, score_sites, temporal_by_days
from hacs_crawler.utils.arrays import BoolArray, FloatArray, IndexArray

DAYS: Final = 60
TEMPORAL_SHARE: Final = 0.139
"""Of the paper's 75 million pages so many are temporal."""
LEAST_VIEWS: Final = 60
_LOST: Final = 1.05
"""More pages that are temporal than others have too few views in the window: it cuts their curves."""
KINDS: Final = ("news", "portal", "blog", "other")
_OF_EACH_KIND: Final = (1, 1, 5, 18)
"""Of 25 sites of about one size."""
_NEWS_FOLDERS: Final = (0.85, 0.35, 0.15, 0.03)
"""Share of the folders of each kind of site that are news."""
_IN_NEWS: Final = (0.7, 0.95)
_ELSEWHERE: Final = (0.0, 0.08)
"""Share of temporal pages, in a folder that is news and in another."""
_MOST_FOLDERS: Final = 8
_SIZE_SLOPE: Final = 0.8
_VIEWS_SLOPE: Final = 1.1
_MOST_VIEWS: Final = 50_000
_WEEK: Final = np.resize([1.15, 1.15, 1.1, 1.1, 1.05, 0.75, 0.7], DAYS)
_SHORT: Final = 0.7
"""A page is temporal where so much of its curve lies in its first three days."""


@dataclass(frozen=True, slots=True)
class InstantWeb:
    """Pages of sites and their folders; arrays have an element a page, or, of `kind_of`, a site.

    `views` is of shape (n, DAYS), `is_temporal` the truth, `folder` and `site` are numbers.
    """

    views: FloatArray
    is_temporal: BoolArray
    site: IndexArray
    folder: IndexArray
    kind_of: IndexArray
    folders: int


def make_web(n_sites: int, n_pages: int, random: np.random.Generator) -> InstantWeb:
    """Draw a web of about `n_pages` pages with 60 views or more.

    Sizes of sites and views of pages follow Zipf's law. Sites are news, portals (which have folders of
    news), blogs and others. A temporal page is a log-normal curve with Phi(3) > 0.7, born before the
    window or in it. Of the others half are steady, a fifth fade over weeks, a fifth grow, and a tenth
    are steady with one burst. All have a week with a weekend.
    """
    some = np.repeat(np.arange(len(KINDS)), _OF_EACH_KIND)
    groups = [random.permutation(some) for _ in range(-(-n_sites // some.size))]
    kind_of = np.concatenate(groups)[:n_sites]
    sizes = np.arange(1.0, n_sites + 1) ** -_SIZE_SLOPE
    site = random.choice(n_sites, n_pages, p=sizes / sizes.sum())
    n_folders = random.integers(1, _MOST_FOLDERS + 1, n_sites)
    first_folder = np.cumsum(n_folders) - n_folders
    folder = first_folder[site] + random.integers(0, n_folders[site])
    share = _folder_shares(np.repeat(kind_of, n_folders), folder, random)
    is_temporal = random.random(n_pages) < share[folder]
    total = LEAST_VIEWS * random.random(n_pages) ** (-1 / _VIEWS_SLOPE)
    total = np.minimum(1.2 * total, _MOST_VIEWS)
    spread = np.where(is_temporal[:, None], _news(n_pages, random), _no_news(n_pages, random))
    views = random.poisson(spread * total[:, None]).astype(np.float64)
    kept = views.sum(axis=1) >= LEAST_VIEWS
    return InstantWeb(
        views[kept], is_temporal[kept], site[kept], folder[kept], kind_of, int(n_folders.sum())
    )


def _folder_shares(kind: IndexArray, folder: IndexArray, random: np.random.Generator) -> FloatArray:
    """Share of temporal pages in each folder, such that `TEMPORAL_SHARE` of all pages are."""
    is_news = random.random(kind.size) < np.array(_NEWS_FOLDERS)[kind]
    inside = random.uniform(*_IN_NEWS, kind.size)
    elsewhere = random.uniform(*_ELSEWHERE, kind.size)
    share = np.where(is_news, inside, elsewhere)
    pages = np.bincount(folder, minlength=kind.size)
    missing = TEMPORAL_SHARE * _LOST * pages.sum() - (share * pages).sum()
    # what is missing or too much goes to folders, whole, of sites in turn, then to what is elsewhere
    for place in random.permutation(kind.size):
        change = (inside - elsewhere)[place] * pages[place]
        if change <= 0:
            continue
        if missing > change and not is_news[place] and kind[place] in {1, 2}:
            is_news[place], missing = True, missing - change
        elif missing < -change and is_news[place]:
            is_news[place], missing = False, missing + change
    return np.asarray(np.where(is_news, inside, elsewhere), np.float64)


def _news(n: int, random: np.random.Generator) -> FloatArray:
    """Share of each temporal page's views on each day."""
    mu, sigma = random.normal(0.0, 0.7, n), np.exp(random.normal(-0.4, 0.3, n))
    while (long := lognormal_cumulative(3.0, mu, sigma) <= _SHORT).any():
        mu[long] = random.normal(0.0, 0.7, int(long.sum()))
        sigma[long] = np.exp(random.normal(-0.4, 0.3, int(long.sum())))
    birth = random.uniform(-3.0, DAYS, n)
    since = np.arange(DAYS + 1.0) - birth[:, None]
    return _WEEK * np.diff(lognormal_cumulative(since, mu[:, None], sigma[:, None]), axis=1)


def _no_news(n: int, random: np.random.Generator) -> FloatArray:
    """Share of each other page's views on each day."""
    days = np.arange(DAYS + 0.0)
    birth = np.where(random.random(n) < 0.7, -1.0, random.uniform(0.0, DAYS, n))[:, None]
    since = np.maximum(days - birth, 0.0)
    is_there = days >= birth
    steady = np.ones((n, DAYS))
    fading = np.exp(-since / random.uniform(10.0, 40.0, (n, 1)))
    growing = 0.3 + since / DAYS
    burst = np.ones((n, DAYS))
    burst[np.arange(n), random.integers(0, DAYS, n)] += random.uniform(3.0, 40.0, n)
    form = random.choice(4, n, p=(0.5, 0.2, 0.2, 0.1))[:, None]
    shape = is_there * np.select(
        [form == 0, form == 1, form == 2], [steady, fading, growing], burst
    )
    noise = random.gamma(12.0, 1 / 12.0, (n, DAYS))
    whole = np.maximum(shape.sum(axis=1, keepdims=True), 1e-9)
    return np.asarray(shape * noise / whole * _WEEK, np.float64)


WEBS: Final = 4
"""What comes out is the mean over so many webs."""
SITES: Final = 1000
PAGES: Final = 15_000
LISTED: Final = 100
PAPER: Final = {"paper_fit": (0.762, 0.516), "manual": (0.546, 0.435)}
"""Precision and recall of Table 1."""
TITLES: Final[Mapping[str, str]] = {
    "paper_fit": "the paper's: score of its own fit",
    "not_shrunk": "score by concentration, not shrunk",
    "sites": "ours: sites",
    "folders": "ours: folders of as many pages",
    "manual": "manual list",
    "known": "sites, temporal pages known",
    "paper": "the paper's fit",
    "curve": "the anchored curve",
    "days": "concentration of the days",
}
TABLES: Final = {
    "table1": "Table 1",
    "published": "Table 1 as published",
    "pages": "Pages told to be temporal by",
}
_KNOWN_BY_NAME: Final = 0.9
_MISTAKEN: Final = 0.01
Found = tuple[float, float, float]
"""Precision, recall, and how many pages are chosen."""
Row = dict[str, Any]
"""table (of `TABLES`), name (of `TITLES`), precision, recall, f, and how many pages are chosen."""


def evaluate_instant(random: np.random.Generator) -> list[Row]:
    """Judge the pages of synthetic webs, list sites and folders, and compare with the truth.

    Precision is the share of the listed places' pages that are temporal, recall the share of all
    temporal pages that lie there; both are means over `WEBS` webs, and f is of the means. `pages` has
    the same of single pages, by rule.
    """
    webs = []
    for _ in range(WEBS):
        web = make_web(SITES, PAGES, random)
        webs.append(_evaluated(web, _manual(web, random)))
    means = {key: np.mean([found[key] for found in webs], axis=0).tolist() for key in webs[0]}
    published = {("published", name): [*numbers, None] for name, numbers in PAPER.items()}
    return [
        {
            "table": table,
            "name": name,
            "precision": precision,
            "recall": recall,
            "f": 2 * precision * recall / ((precision + recall) or 1.0),
            "pages": pages,
        }
        for (table, name), (precision, recall, pages) in (means | published).items()
    ]


def _evaluated(web: InstantWeb, manual: IndexArray) -> dict[tuple[str, str], Found]:
    """Return what is found of a web, and by its manual list, by table and name."""
    ours = temporal_by_days(web.views)
    paper = temporal_by_curve(fit_paper(web.views))
    anchored = temporal_by_curve(fit_anchored(web.views))
    totals = web.views.sum(axis=1)
    n_sites = web.kind_of.size

    def of(chosen: BoolArray) -> Found:
        hits = int((chosen & web.is_temporal).sum())
        number = int(chosen.sum())
        return hits / max(number, 1), hits / max(int(web.is_temporal.sum()), 1), number

    def raw(is_temporal: BoolArray) -> BoolArray:
        scores = score_sites(web.site, is_temporal, totals, n_sites, more=0.0)
        best = np.lexsort((-scores.pages, -np.nan_to_num(scores.score)))
        return np.isin(web.site, best[:LISTED])

    def shrunk(is_temporal: BoolArray) -> BoolArray:
        best = score_sites(web.site, is_temporal, totals, n_sites).best(LISTED)
        return np.isin(web.site, best)

    sites = shrunk(ours)
    folders = score_sites(web.folder, ours, totals, web.folders)
    best = folders.best()
    as_many = best[np.cumsum(folders.pages[best]) <= sites.sum()]
    return {
        ("table1", "paper_fit"): of(raw(paper)),
        ("table1", "not_shrunk"): of(raw(ours)),
        ("table1", "sites"): of(sites),
        ("table1", "folders"): of(np.isin(web.folder, as_many)),
        ("table1", "manual"): of(np.isin(web.site, manual)),
        ("table1", "known"): of(shrunk(web.is_temporal)),
        ("pages", "paper"): of(paper),
        ("pages", "curve"): of(anchored),
        ("pages", "days"): of(ours),
    }


def _manual(web: InstantWeb, random: np.random.Generator) -> IndexArray:
    """Return the most viewed sites of those that an editor takes for news: an assumption.

    Sites of news and portals are known for it with nine chances in ten, others with one in a hundred.
    """
    is_news = np.isin(web.kind_of, (KINDS.index("news"), KINDS.index("portal")))
    chance = np.where(is_news, _KNOWN_BY_NAME, _MISTAKEN)
    fame = np.bincount(web.site, weights=web.views.sum(axis=1), minlength=web.kind_of.size)
    taken = random.random(web.kind_of.size) < chance
    return np.argsort(np.where(taken, -fame, 0.0), kind="stable")[: min(LISTED, int(taken.sum()))]


def print_table(rows: Sequence[Row], title: str) -> None:
    print(f"\n| {title} | precision | recall | f | pages |\n|---|---:|---:|---:|---:|")
    for row in rows:
        scores = " | ".join(f"{row[name]:.3f}" for name in ("precision", "recall", "f"))
        pages = "" if row["pages"] is None else f"{row['pages']:,.0f}"
        print(f"| {TITLES[row['name']]} | {scores} | {pages} |")


# The paper's q: a page is temporal if Phi(3) is more.
PAPER_SHARE: Final = 0.7
# How far in the past b may go; beyond, the curve changes no more, but its parameters do.
PAST_DAYS: Final = 1000.0
_LOG_ROOT_TWO_PI: Final = 0.5 * math.log(2 * math.pi)
# Days of b before the rise, and sigma.
_PAPER_STARTS: Final = ((1.0, 0.7), (0.5, 1.5), (0.05, 1.0), (4.0, 0.3), (30.0, 0.1))
_PAPER_LOG_SIGMA_RANGE: Final = (math.log(1e-4), math.log(20.0))
_PAPER_MU_RANGE: Final = (-10.0, 12.0)


def fit_paper(views: FloatArray) -> Curves:
    """Fit f(x) = A phi(x - b; mu, sigma) to each row of views (n, days), at x = 1, 2, ... days.

    phi is the log-normal density. Least squares over all days of the window with A, b, mu and sigma
    free, by Levenberg-Marquardt from several starts. Source: Wang, Liu, Zhang, Ma, Ru, "Identify
    Temporal Websites Based on User Behavior Analysis", IJCNLP 2008, section 3.

    It is not identifiable: a spike is fitted as well by a b far in the past, with a large mu and a
    sigma near 0, as by one at the spike, and Phi(3) is 0 for the one and 1 for the other.
    """
    return by_block(np.asarray(views, dtype=np.float64), _least_squares)


class _SquaredLoss:
    """Half the sum of squares of A phi(x - b; mu, sigma) - y; parameters A, b, mu, ln sigma."""

    def __init__(self, y: FloatArray) -> None:
        self._y = y
        self._x = np.arange(1.0, y.shape[1] + 1)

    def __call__(self, parameters: FloatArray, rows: IndexArray) -> Quadratic:
        scale, b, mu, log_sigma = (column[:, None] for column in parameters.T)
        per_sigma = np.exp(-log_sigma)
        u = self._x - b
        is_before = u <= 0
        u[is_before] = 1.0
        logs = np.log(u)
        z = (logs - mu) * per_sigma
        # in place: another array costs more than the computation
        density = z * z
        density *= -0.5
        density -= logs
        density -= log_sigma + _LOG_ROOT_TWO_PI
        np.exp(density, out=density)
        density[is_before] = 0.0
        curve = scale * density
        by_log_sigma = curve * z
        by_mu = by_log_sigma * per_sigma
        by_b = curve + by_mu
        by_b /= u
        by_log_sigma *= z
        by_log_sigma -= curve
        slopes = (density, by_b, by_mu, by_log_sigma)
        off = curve
        off -= self._y[rows]
        return Quadratic(
            0.5 * np.einsum("nb,nb->n", off, off),
            np.stack([np.einsum("nb,nb->n", slope, off) for slope in slopes], axis=1),
            np.einsum("inb,jnb->nij", slopes, slopes),
        )


def _least_squares(views: FloatArray) -> Curves:
    total = views.sum(axis=1)
    rise = rise_of(views) + 1.0
    half = bins_to_half(views) + 1.0
    starts = []
    for before, sigma in _PAPER_STARTS:
        b = rise - before
        mu = np.log(np.maximum(half - b, 0.3))
        starts.append(np.stack([np.ones_like(b), b, mu, np.full_like(b, math.log(sigma))], axis=1))
    lower = np.array([0.0, -PAST_DAYS, _PAPER_MU_RANGE[0], _PAPER_LOG_SIGMA_RANGE[0]])
    upper = np.array([np.inf, float(views.shape[1]), _PAPER_MU_RANGE[1], _PAPER_LOG_SIGMA_RANGE[1]])
    best = best_of_starts(_SquaredLoss(views / total[:, None]), starts, lower, upper)
    scale, b, mu, log_sigma = best.parameters.T
    return Curves(mu, np.exp(log_sigma), b, scale * total)


def temporal_by_curve(curves: Curves) -> BoolArray:
    """Return which pages are temporal as the paper has it: Phi(3) > 0.7."""
    return np.asarray(curves.phi(BEST_DAYS) > PAPER_SHARE, np.bool_)


def main() -> None:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    rows = evaluate_instant(np.random.default_rng(0))
    print(
        f"{WEBS} synthetic webs of about {PAGES:,} pages; means, lists of {LISTED} sites, and folders "
        "of as many pages as the sites have."
    )
    for table, title in TABLES.items():
        print_table([row for row in rows if row["table"] == table], title)


if __name__ == "__main__":
    main()
