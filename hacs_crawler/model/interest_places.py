"""Which sites or folders are news: their pages' classes, shrunk by how few pages there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy

from hacs_crawler.model.interest_classes import TEMPORAL, UNKNOWN, Classes
from hacs_crawler.utils.arrays import FloatArray, IndexArray

PAGES_WEIGHT: Final = 3.0
VIEWS_WEIGHT: Final = 2.0
"""How the paper weighs a site's share of temporal pages against its share of views on them."""
_ROUNDING: Final = 1e-9
_STRENGTHS: Final = np.geomspace(0.5, 200, 40)


@dataclass(frozen=True, slots=True)
class Places:
    """Sites, or folders: arrays with one element a place.

    `pages` are those of any class, `judged` those of a class but unknown, `temporal` those that are;
    `views` and `temporal_views` are of judged pages. `raw_score` is the paper's, nan where no page is
    judged, and `score` the same with both shares shrunk towards those of all places.
    """

    pages: IndexArray
    judged: IndexArray
    temporal: IndexArray
    views: FloatArray
    temporal_views: FloatArray
    raw_score: FloatArray
    score: FloatArray
    usual_score: float


def score_places(place_of: IndexArray, classes: Classes, views: FloatArray, count: int) -> Places:
    """Score `count` places by their pages: page i is of place `place_of[i]` and has views[i] in all.

    raw_score = (3 * share of temporal pages + 2 * share of views on temporal pages) / 5 (Wang et al.,
    IJCNLP 2008, section 4). `score` adds to each place as many pages as `pages_to_add` says, of which
    the share is temporal that is among all pages, and likewise of the views: a place of one page says
    little, and a raw share would fill a list with such places.
    """
    judged = classes != UNKNOWN
    temporal = classes == TEMPORAL

    def by_place(weight: FloatArray) -> FloatArray:
        return np.bincount(place_of, weights=weight, minlength=count).astype(np.float64)

    n, k = by_place(judged.astype(np.float64)), by_place(temporal.astype(np.float64))
    all_views, theirs = by_place(views * judged), by_place(views * temporal)
    page_share = np.divide(k, n, out=np.full(count, np.nan), where=n > 0)
    view_share = np.divide(theirs, all_views, out=page_share.copy(), where=all_views > 0)
    more = pages_to_add(k, n)
    usual_pages = k.sum() / max(n.sum(), 1.0)
    usual_views = theirs.sum() / all_views.sum() if all_views.sum() > 0 else usual_pages
    shrunk_pages = (k + more * usual_pages) / (n + more)
    shrunk_views = (n * np.nan_to_num(view_share) + more * usual_views) / (n + more)
    return Places(
        np.bincount(place_of, minlength=count).astype(np.int64),
        n.astype(np.int64),
        k.astype(np.int64),
        all_views,
        theirs,
        _score(page_share, view_share),
        _score(shrunk_pages, shrunk_views),
        float(_score(np.array(usual_pages), np.array(usual_views))),
    )


def pages_to_add(temporal: FloatArray, judged: FloatArray) -> float:
    """Pages of the usual kind that each place's own are weighed against, 0.5 to 200.

    The most likely strength of a beta-binomial distribution over the places, with the mean of all their
    pages: few where places are all one thing or all the other, many where they are alike.
    """
    seen = judged > 0
    k, n = temporal[seen], judged[seen]
    mean = k.sum() / n.sum() if n.sum() else 0.0
    if not 0 < mean < 1:
        return 1.0
    a, b = mean * _STRENGTHS[:, None], (1 - mean) * _STRENGTHS[:, None]
    likelihood = (scipy.special.betaln(k + a, n - k + b) - scipy.special.betaln(a, b)).sum(axis=1)
    return float(_STRENGTHS[np.argmax(likelihood)])


def best_places(places: Places, top: int | None = None, burden: int | None = None) -> IndexArray:
    """Return the numbers of the places to list, best first, of those with a temporal page.

    None is worse than all pages together. At most `top` of them; or with `burden`, as many as have no
    more than so many pages together: one that is too large for what is left is passed over. Of equal
    scores the place with more judged pages is first.
    """
    order = np.lexsort((-places.judged, -places.score))
    least = places.usual_score * (1 - _ROUNDING)
    order = order[(places.temporal[order] > 0) & (places.score[order] >= least)]
    if burden is not None:
        left, chosen = burden, []
        for place in order.tolist():
            if places.pages[place] <= left:
                left -= int(places.pages[place])
                chosen.append(place)
        order = np.array(chosen, dtype=np.int64)
    return order[:top]


def _score(page_share: FloatArray, view_share: FloatArray) -> FloatArray:
    whole = PAGES_WEIGHT + VIEWS_WEIGHT
    return (PAGES_WEIGHT * page_share + VIEWS_WEIGHT * view_share) / whole
