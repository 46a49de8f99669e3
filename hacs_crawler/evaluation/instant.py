"""How well seed lists of news are found (Wang et al., IJCNLP 2008, Table 1), on synthetic webs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

import numpy as np
from rich.table import Table

from hacs_crawler.cluster import HERE, Workers, in_order
from hacs_crawler.evaluation.instant_web import KINDS, InstantWeb, make_web
from hacs_crawler.model import (
    fit_anchored,
    fit_paper,
    score_sites,
    temporal_by_curve,
    temporal_by_days,
)
from hacs_crawler.utils.arrays import BoolArray, FloatArray, IndexArray
from hacs_crawler.utils.terminal import column_table

WEBS: Final = 4
"""What comes out is the mean over so many webs."""
SITES: Final = 1000
PAGES: Final = 15_000
LISTED: Final = 100
PAPER: Final = {"paper_fit": (0.762, 0.516, 0.615), "manual": (0.546, 0.435, 0.484)}
"""Precision, recall and F of Table 1."""
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
_KNOWN_BY_NAME: Final = 0.9
_MISTAKEN: Final = 0.01
_BLOCK: Final = 8192
Judged = tuple[BoolArray, BoolArray, BoolArray]
"""Which pages are temporal by their days, by the paper's fit, and by the anchored curve."""


@dataclass(frozen=True, slots=True)
class Found:
    """How well a choice of pages hits those that are temporal; `pages` is how many it has."""

    precision: float
    recall: float
    pages: float

    @property
    def f(self) -> float:
        """Harmonic mean of precision and recall."""
        whole = self.precision + self.recall
        return 2 * self.precision * self.recall / whole if whole else 0.0


@dataclass(frozen=True, slots=True)
class InstantEvaluation:
    """Table 1 by list, and how well single pages are told to be temporal, by rule."""

    table1: Mapping[str, Found]
    pages: Mapping[str, Found]


def evaluate_instant(
    random: np.random.Generator,
    on_pages: Callable[[int, int], None] = lambda _done, _total: None,
    workers: Workers = HERE,
) -> InstantEvaluation:
    """Judge the pages of synthetic webs, list sites and folders, and compare with the truth.

    Precision is the share of the listed places' pages that are temporal, recall the share of all
    temporal pages that lie there; both are means over `WEBS` webs. Workers judge some pages at a time.
    """
    found = []
    for number in range(WEBS):

        def on_more(pages: int, done: int = number * PAGES) -> None:
            on_pages(done + pages, WEBS * PAGES)

        web = make_web(SITES, PAGES, random)
        found.append(_evaluated(web, random, _judged(web.views, on_more, workers)))
    return InstantEvaluation(
        *(
            _means([getattr(one, field.name) for one in found])
            for field in fields(InstantEvaluation)
        )
    )


def _means(found: Sequence[Mapping[str, Found]]) -> dict[str, Found]:
    """Return the means over webs of each list's numbers."""
    return {
        name: Found(
            *(
                float(np.mean([getattr(one[name], field.name) for one in found]))
                for field in fields(Found)
            )
        )
        for name in found[0]
    }


def _evaluated(web: InstantWeb, random: np.random.Generator, judged: Judged) -> InstantEvaluation:
    ours, paper, anchored = judged
    totals = web.views.sum(axis=1)
    n_sites = web.kind_of.size

    def of_sites(sites: IndexArray) -> Found:
        return _of(web, np.isin(web.site, sites))

    def raw(is_temporal: BoolArray) -> Found:
        scores = score_sites(web.site, is_temporal, totals, n_sites)
        return of_sites(np.lexsort((-scores.pages, -np.nan_to_num(scores.raw_score)))[:LISTED])

    def shrunk(is_temporal: BoolArray) -> Found:
        return of_sites(score_sites(web.site, is_temporal, totals, n_sites).best(LISTED))

    sites = shrunk(ours)
    folders = score_sites(web.folder, ours, totals, web.folders)
    best = folders.best()
    as_many = best[np.cumsum(folders.pages[best]) <= sites.pages]
    lists = {
        "paper_fit": raw(paper),
        "not_shrunk": raw(ours),
        "sites": sites,
        "folders": _of(web, np.isin(web.folder, as_many)),
        "manual": of_sites(_manual(web, totals, random)),
        "known": shrunk(web.is_temporal),
    }
    pages = {"paper": _of(web, paper), "curve": _of(web, anchored), "days": _of(web, ours)}
    return InstantEvaluation(lists, pages)


def _judged(views: FloatArray, on_pages: Callable[[int], None], workers: Workers) -> Judged:
    """Judge all pages, some by each worker."""
    blocks = [views[start : start + _BLOCK] for start in range(0, len(views), _BLOCK)]
    found: list[Judged] = []
    for judged in in_order(workers.mapped(_judged_block, blocks)):
        found.append(judged)
        on_pages(sum(map(len, blocks[: len(found)])))
    ours, paper, anchored = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return ours, paper, anchored


def _judged_block(views: FloatArray) -> Judged:
    return (
        temporal_by_days(views),
        temporal_by_curve(fit_paper(views)),
        temporal_by_curve(fit_anchored(views)),
    )


def _manual(web: InstantWeb, totals: FloatArray, random: np.random.Generator) -> IndexArray:
    """Return the most viewed sites of those that an editor takes for news: an assumption.

    Sites of news and portals are known for it with nine chances in ten, others with one in a hundred.
    """
    is_news = np.isin(web.kind_of, (KINDS.index("news"), KINDS.index("portal")))
    chance = np.where(is_news, _KNOWN_BY_NAME, _MISTAKEN)
    fame = np.bincount(web.site, weights=totals, minlength=web.kind_of.size)
    taken = random.random(web.kind_of.size) < chance
    return np.argsort(np.where(taken, -fame, 0.0), kind="stable")[: min(LISTED, int(taken.sum()))]


def _of(web: InstantWeb, chosen: BoolArray) -> Found:
    hits = int((chosen & web.is_temporal).sum())
    return Found(
        hits / max(int(chosen.sum()), 1),
        hits / max(int(web.is_temporal.sum()), 1),
        float(chosen.sum()),
    )


def instant_json(result: InstantEvaluation) -> dict[str, Any]:
    """Return all numbers: `table1` by list, `pages` by rule, `published` as the paper has them."""
    return {
        **{
            table: {name: {**asdict(one), "f": one.f} for name, one in found.items()}
            for table, found in (("table1", result.table1), ("pages", result.pages))
        },
        "published": {
            name: dict(zip(("precision", "recall", "f"), numbers, strict=True))
            for name, numbers in PAPER.items()
        },
    }


def instant_rows(result: InstantEvaluation) -> list[dict[str, Any]]:
    """Return a row for each list, each list that was published, and each rule."""
    columns = ("precision", "recall", "f", "pages")
    return [
        {"table": table, "name": name} | {column: row.get(column) for column in columns}
        for table, found in instant_json(result).items()
        for name, row in found.items()
    ]


def instant_parts(result: InstantEvaluation) -> list[str | Table]:
    """Return the tables and sentences as they are printed."""
    lists = {TITLES[name]: _cells(one) for name, one in result.table1.items()}
    published = {
        f"published: {TITLES[name]}": [*(f"{number:.3f}" for number in numbers), "-"]
        for name, numbers in PAPER.items()
    }
    pages = {TITLES[name]: _cells(one) for name, one in result.pages.items()}
    head = (
        f"{WEBS} synthetic webs of about {PAGES} pages; means, lists of {LISTED} sites, and folders of "
        "as many pages as the sites have"
    )
    return [
        head,
        "",
        _table("Table 1", lists | published),
        "",
        _table("Pages told to be temporal by", pages),
    ]


def _cells(one: Found) -> list[str]:
    return [f"{one.precision:.3f}", f"{one.recall:.3f}", f"{one.f:.3f}", f"{one.pages:.0f}"]


def _table(title: str, rows: Mapping[str, Sequence[str]]) -> Table:
    numbers = zip(*rows.values(), strict=True)
    columns = dict(zip(("precision", "recall", "F", "pages"), numbers, strict=True))
    return column_table({title: list(rows), **columns}, texts=(title,))
