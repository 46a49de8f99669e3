"""How well seed lists of news are found (Wang et al., IJCNLP 2008, Table 1), on synthetic webs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from rich.table import Table

from hacs_crawler.evaluation.instant_web import KINDS, InstantWeb, make_web
from hacs_crawler.model import (
    fit_anchored,
    fit_paper,
    score_sites,
    temporal_by_curve,
    temporal_by_days,
)
from hacs_crawler.utils.arrays import BoolArray, IndexArray
from hacs_crawler.utils.terminal import column_table

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


def evaluate_instant(
    random: np.random.Generator,
    on_web: Callable[[int, int], None] = lambda _done, _total: None,
) -> list[Row]:
    """Judge the pages of synthetic webs, list sites and folders, and compare with the truth.

    Precision is the share of the listed places' pages that are temporal, recall the share of all
    temporal pages that lie there; both are means over `WEBS` webs, and f is of the means. `pages` has
    the same of single pages, by rule.
    """
    webs = []
    for _ in range(WEBS):
        web = make_web(SITES, PAGES, random)
        webs.append(_evaluated(web, _manual(web, random)))
        on_web(len(webs), WEBS)
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
        scores = score_sites(web.site, is_temporal, totals, n_sites)
        best = np.lexsort((-scores.pages, -np.nan_to_num(scores.raw_score)))
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


def instant_parts(rows: Sequence[Row]) -> list[str | Table]:
    """Return the tables and sentences as they are printed."""
    parts: list[str | Table] = [
        f"{WEBS} synthetic webs of about {PAGES} pages; means, lists of {LISTED} sites, and folders of "
        "as many pages as the sites have"
    ]
    for table, title in TABLES.items():
        mine = [row for row in rows if row["table"] == table]
        columns: dict[str, list[Any]] = {title: [TITLES[row["name"]] for row in mine]}
        for name in ("precision", "recall", "f"):
            columns[name] = [f"{row[name]:.3f}" for row in mine]
        columns["pages"] = ["-" if row["pages"] is None else f"{row['pages']:.0f}" for row in mine]
        parts += ["", column_table(columns, texts=(title,))]
    return parts
