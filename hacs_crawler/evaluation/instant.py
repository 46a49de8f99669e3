"""How well seed lists of news are found (Wang et al., IJCNLP 2008, Table 1), on synthetic webs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from hacs_crawler.cluster import HERE, Workers, in_order
from hacs_crawler.evaluation.instant_web import KINDS, Web, make_web
from hacs_crawler.model import (
    STEADY,
    TEMPORAL,
    UNKNOWN,
    UNSTABLE,
    Classes,
    best_places,
    classify,
    classify_by_curve,
    fit_anchored,
    fit_paper,
    score_places,
)
from hacs_crawler.utils.arrays import BoolArray, FloatArray, IndexArray
from hacs_crawler.utils.columns import Column, lines_of, wrapped

WEBS: Final = 4
"""What comes out is the mean over so many webs."""
SITES: Final = 1000
PAGES: Final = 15_000
LISTED: Final = 100
PAPER: Final = {"paper_fit": (0.762, 0.516, 0.615), "manual": (0.546, 0.435, 0.484)}
"""Precision, recall and F of Table 1."""
TITLES: Final[Mapping[str, str]] = {
    "paper_fit": "the paper's: score of its own fit",
    "not_shrunk": "score of our classes, not shrunk",
    "sites": "ours: sites",
    "folders": "ours: folders of as many pages",
    "manual": "manual list",
    "known": "sites, classes known",
    "paper": "the paper's fit",
    "curve": "the anchored curve",
    "classes": "our classes",
}
MEANS: Final = ("precision", "recall", "pages")
_KNOWN_BY_NAME: Final = 0.9
_MISTAKEN: Final = 0.01
_BLOCK: Final = 8192
Judged = tuple[Classes, Classes, Classes]
"""Classes of pages by our rule, by the paper's fit, and by the anchored curve."""


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
    """Table 1, and how well single pages are told, by the rule that chose; and the web's facts."""

    table1: Mapping[str, Found]
    classes: Mapping[str, Found]
    facts: Mapping[str, float]


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
        _means([one.table1 for one in found]),
        _means([one.classes for one in found]),
        {name: float(np.mean([one.facts[name] for one in found])) for name in found[0].facts},
    )


def _means(found: Sequence[Mapping[str, Found]]) -> dict[str, Found]:
    return {
        name: Found(
            *(float(np.mean([getattr(one[name], what) for one in found])) for what in MEANS)
        )
        for name in found[0]
    }


def _evaluated(web: Web, random: np.random.Generator, judged: Judged) -> InstantEvaluation:
    ours, paper, anchored = judged
    totals = web.views.sum(axis=1)
    n_sites = web.kind_of.size
    truth = np.where(web.is_temporal, TEMPORAL, STEADY).astype(np.int8)

    def of_sites(sites: IndexArray) -> Found:
        return _of(web, np.isin(web.site, sites))

    def raw(classes: Classes) -> Found:
        places = score_places(web.site, classes, totals, n_sites)
        return of_sites(np.lexsort((-places.judged, -np.nan_to_num(places.raw_score)))[:LISTED])

    def shrunk(classes: Classes) -> Found:
        return of_sites(best_places(score_places(web.site, classes, totals, n_sites), LISTED))

    sites = shrunk(ours)
    folders = score_places(web.folder, ours, totals, web.folders)
    lists = {
        "paper_fit": raw(paper),
        "not_shrunk": raw(ours),
        "sites": sites,
        "folders": _of(web, np.isin(web.folder, best_places(folders, burden=int(sites.pages)))),
        "manual": of_sites(_manual(web, totals, random)),
        "known": shrunk(truth),
    }
    classes = {
        "paper": _of(web, paper == TEMPORAL),
        "curve": _of(web, anchored == TEMPORAL),
        "classes": _of(web, ours == TEMPORAL),
    }
    facts = {
        "sites": float(np.unique(web.site).size),
        "pages": float(len(web.views)),
        "temporal share": float(web.is_temporal.mean()),
        "unknown share": float((ours == UNKNOWN).mean()),
        "unstable share": float((ours == UNSTABLE).mean()),
    }
    return InstantEvaluation(lists, classes, facts)


def _judged(views: FloatArray, on_pages: Callable[[int], None], workers: Workers) -> Judged:
    """Return the classes of all pages, some by each worker."""
    blocks = [views[start : start + _BLOCK] for start in range(0, len(views), _BLOCK)]
    found: list[Judged] = []
    for one in in_order(workers.mapped(_judged_block, blocks)):
        found.append(one)
        on_pages(sum(map(len, blocks[: len(found)])))
    ours, paper, anchored = (np.concatenate(one) for one in zip(*found, strict=True))
    return ours, paper, anchored


def _judged_block(views: FloatArray) -> Judged:
    return (
        classify(views),
        classify_by_curve(fit_paper(views)),
        classify_by_curve(fit_anchored(views)),
    )


def _manual(web: Web, totals: FloatArray, random: np.random.Generator) -> IndexArray:
    """Return the most viewed sites of those that an editor takes for news: an assumption.

    Sites of news and portals are known for it with nine chances in ten, others with one in a hundred.
    """
    is_news = np.isin(web.kind_of, (KINDS.index("news"), KINDS.index("portal")))
    chance = np.where(is_news, _KNOWN_BY_NAME, _MISTAKEN)
    fame = np.bincount(web.site, weights=totals, minlength=web.kind_of.size)
    taken = random.random(web.kind_of.size) < chance
    return np.argsort(np.where(taken, -fame, 0.0), kind="stable")[: min(LISTED, int(taken.sum()))]


def _of(web: Web, chosen: BoolArray) -> Found:
    hits = int((chosen & web.is_temporal).sum())
    return Found(
        hits / max(int(chosen.sum()), 1),
        hits / max(int(web.is_temporal.sum()), 1),
        float(chosen.sum()),
    )


def instant_json(result: InstantEvaluation) -> dict[str, Any]:
    """Return all numbers: `table1` by list, `classes` by rule, `published` as the paper has them."""

    def as_dict(found: Mapping[str, Found]) -> dict[str, dict[str, float]]:
        return {
            name: {
                "precision": one.precision,
                "recall": one.recall,
                "f": one.f,
                "pages": one.pages,
            }
            for name, one in found.items()
        }

    published = {
        name: dict(zip(("precision", "recall", "f"), numbers, strict=True))
        for name, numbers in PAPER.items()
    }
    return {
        "table1": as_dict(result.table1),
        "classes": as_dict(result.classes),
        "web": dict(result.facts),
        "published": published,
    }


def instant_rows(result: InstantEvaluation) -> list[dict[str, Any]]:
    """Return a row for each list, for each rule and for each list that was published; None for none."""
    found = instant_json(result)
    return [
        {
            "table": table,
            "name": name,
            **{column: row.get(column) for column in ("precision", "recall", "f", "pages")},
        }
        for table in ("table1", "published", "classes")
        for name, row in found[table].items()
    ]


def instant_text(result: InstantEvaluation, width: int | None = None) -> str:
    """Return the tables as text, in lines of a width if there is one."""
    facts = result.facts
    order = sorted(result.table1, key=lambda name: -result.table1[name].f)
    best, *others = (f"{TITLES[name]} ({result.table1[name].f:.3f})" for name in order)
    lists = {TITLES[name]: _cells(one) for name, one in result.table1.items()}
    published = {
        f"published: {TITLES[name]}": [*(f"{number:.3f}" for number in numbers), "-"]
        for name, numbers in PAPER.items()
    }
    classes = {TITLES[name]: _cells(one) for name, one in result.classes.items()}
    parts = [
        wrapped(f"Conclusion: the best list by F is {best}, before {', '.join(others)}.", width),
        wrapped(
            f"{WEBS} synthetic webs of about {facts['sites']:.0f} sites and {facts['pages']:.0f} "
            f"pages, {100 * facts['temporal share']:.1f} % of these temporal; means, lists of "
            f"{LISTED} sites",
            width,
        ),
        _table("Table 1", lists | published, width),
        _table("Pages told to be temporal by", classes, width),
    ]
    return "\n\n".join("\n".join(part) for part in parts)


def _cells(one: Found) -> list[str]:
    return [f"{one.precision:.3f}", f"{one.recall:.3f}", f"{one.f:.3f}", f"{one.pages:.0f}"]


def _table(title: str, rows: Mapping[str, Sequence[str]], width: int | None) -> list[str]:
    numbers = (("precision", 7), ("recall", 6), ("F", 8), ("pages", 5))
    columns = [
        Column(title, list(rows), 9, is_text=True, is_wide=True),
        *(
            Column(name, [row[place] for row in rows.values()], weight)
            for place, (name, weight) in enumerate(numbers)
        ),
    ]
    return list(lines_of(columns, width))
