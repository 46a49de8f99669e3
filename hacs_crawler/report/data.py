"""All that a report shows, as one JSON document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.config import Config
from hacs_crawler.experiment.answer import answer
from hacs_crawler.experiment.text import sentences
from hacs_crawler.model import lognormal_cumulative
from hacs_crawler.ranking.calibration import Group, groups
from hacs_crawler.ranking.instant import listed_hubs
from hacs_crawler.ranking.plan import Plan, read_rows
from hacs_crawler.ranking.shard_rounds import plan_of_all
from hacs_crawler.report.overview import (
    INTERVAL_EDGES_DAYS,
    LATELY_DAYS,
    UPDATE_CLASSES,
    VISIT_CLASSES,
    Overview,
    interval_counts,
    overview,
)
from hacs_crawler.report.pages import chances, gaps_between_updates, load_pages, page_data, rounded
from hacs_crawler.report.runs import yields
from hacs_crawler.state import (
    MOST_OUTCOMES,
    UPDATED,
    Outcomes,
    State,
    describe,
    trusted_sources,
)
from hacs_crawler.statistics import reliability
from hacs_crawler.utils.arrays import FloatArray
from hacs_crawler.utils.progress import Progress
from hacs_crawler.utils.times import DAY

CHANCE_BINS: Final = 20
CURVE_POINTS: Final = 200
HUBS: Final = 4
LISTS: Final = ("slowest", "quietest", "churning", "gone")
"""Of an overview's pages."""
LINK_DAYS: Final = np.geomspace(0.01, 30, 80)
"""Ages of a hub's link at which it is told how much of the interest in it is left."""


def report_data(state: State, config: Config, now: float, limit: int) -> dict[str, Any]:
    """Return the document; `now` is in seconds since 1970 UTC, every list has `limit` entries at most.

    It does not grow with the number of pages known, though the memory that it takes to make it does.
    Raises StateError, and ConfigError where a policy does not return one number a page.
    """
    with Progress("report") as progress:
        known = read_rows(state, progress, now)
    view = overview(*known, now, limit)
    plan = plan_of_all(state, config.ranking, now, known=known)
    outcomes = state.outcomes()
    lists = {name: getattr(view, name) for name in LISTS}
    listed = np.unique(np.concatenate([plan.page_ids[:limit], *lists.values()]))
    pages = load_pages(state, listed, now)
    place = {page_id: number for number, page_id in enumerate(pages)}
    chance = chances(state, config.ranking, listed, known, now)
    return {
        "now": int(now),
        "version": version("hacs-crawler"),
        "state": describe(config.state),
        "settings": _settings(config),
        "counts": _counts(view),
        "lately": _lately(outcomes, now),
        "size": {
            "bytes": state.store.size_bytes(),
            "outcomes": len(outcomes),
            "mostOutcomes": MOST_OUTCOMES,
        },
        "together": (
            round(state.estimation.togetherness, 2) if config.ranking.counts_siblings else None
        ),
        "pages": page_data(pages, plan, chance, state),
        "plan": _plan(plan, config, limit, place),
        "intervals": _intervals(view, state, now),
        "evidence": {
            "visits": VISIT_CLASSES.tolist(),
            "updates": UPDATE_CLASSES.tolist(),
            "counts": view.evidence.tolist(),
        },
        "lists": {
            name: [place[page_id] for page_id in ids.tolist() if page_id in place]
            for name, ids in lists.items()
        },
        "runs": _runs(state, outcomes, limit),
        "hubs": _hubs(config),
        "signals": _signals(state, limit),
        "experiment": _experiment(state, config, now),
        "calibration": [
            _calibration(group) for group in groups(state, outcomes) if len(group.outcomes)
        ],
    }


def _settings(config: Config) -> list[tuple[str, str]]:
    options, estimation = config.ranking, config.estimation
    arms, is_compared = options.experiment.arms, options.experiment.is_on
    shown = {
        "HACS_NAMESPACE": config.own_namespace,
        "HACS_POLICY": "that of each arm" if is_compared else arms[0].policy.name,
        "HACS_EXPERIMENT": (
            ", ".join(f"{arm.name} {arm.share:.0%}" for arm in arms) if is_compared else "none"
        ),
        "HACS_ESTIMATOR": estimation.estimator,
        "HACS_FADE_DAYS": f"{estimation.fade_days:g}",
        "HACS_ELAPSED_FROM": options.elapsed_from,
        "HACS_SIBLINGS": str(options.siblings),
        "HACS_THRESHOLD": f"{options.threshold:g}",
        "HACS_BUDGET": "none" if options.budget is None else str(options.budget),
    }
    return list(shown.items())


def _counts(view: Overview) -> dict[str, int]:
    return {
        "known": view.known,
        "visited": view.visited,
        "evident": view.evident,
        "waiting": view.waiting,
        "failing": view.failing,
        "updatedLately": view.updated_lately,
    }


def _lately(outcomes: Outcomes, now: float) -> dict[str, int]:
    late = outcomes[outcomes["at"] > now - LATELY_DAYS * DAY]
    return {
        "days": LATELY_DAYS,
        "visits": len(late),
        "updates": int(((late["flags"] & UPDATED) > 0).sum()),
    }


def _plan(plan: Plan, config: Config, limit: int, place: Mapping[int, int]) -> dict[str, Any]:
    is_known = plan.visits > 0
    listed = [place.get(page_id) for page_id in plan.page_ids[:limit].tolist()]
    readable = [number for number, page in enumerate(listed) if page is not None]
    return {
        "size": len(plan),
        "firsts": int((~is_known).sum()),
        "expected": round(float(plan.p[is_known].sum()), 2),
        "waiting": plan.waiting,
        "belowThreshold": plan.below_threshold,
        "leftOut": plan.left_out,
        "threshold": config.ranking.threshold,
        "budget": config.ranking.budget,
        "armNames": plan.arm_names,
        "curve": _curve(np.where(is_known, plan.p, 0.0)),
        "chances": np.histogram(plan.p[is_known], CHANCE_BINS, (0.0, 1.0))[0].tolist(),
        "pages": [listed[number] for number in readable],
        "p": rounded(plan.p[readable]),
        "rate": rounded(plan.rate_per_day[readable]),
        "arms": plan.arms[readable].tolist(),
    }


def _curve(p: FloatArray) -> dict[str, list[Any]]:
    """Return how many updates a plan's first visits are expected to find, at some numbers of them."""
    sums = np.concatenate([[0.0], np.cumsum(p)])
    visits = np.unique(np.linspace(0, len(p), min(len(p), CURVE_POINTS) + 1).round().astype(int))
    return {"visits": visits.tolist(), "expected": rounded(sums[visits], 6)}


def _intervals(view: Overview, state: State, now: float) -> dict[str, Any]:
    sampled = load_pages(state, view.sample, now)
    gaps = gaps_between_updates(list(sampled.values()))
    return {
        "edges": INTERVAL_EDGES_DAYS.tolist(),
        "estimated": view.intervals.tolist(),
        "unmoved": view.unmoved,
        "observed": interval_counts(gaps).tolist(),
        "gaps": len(gaps),
        "sampled": len(sampled),
    }


def _runs(state: State, outcomes: Outcomes, limit: int) -> dict[str, Any]:
    found = yields(outcomes, state.label, limit)
    columns = asdict(found)
    columns["newLinks"] = columns.pop("new_links")
    columns["siteUpdates"] = columns.pop("site_updates")
    columns["predicted"] = np.round(columns["predicted"], 2)
    return {
        "total": len(np.unique(outcomes["run"])),
        **{
            name: list(values) if name == "names" else values.tolist()
            for name, values in columns.items()
        },
    }


def _hubs(config: Config) -> dict[str, Any] | None:
    """Return how interest in the links of HACS_INSTANT's first hubs fades, None without a list."""
    if config.ranking.instant is None:
        return None
    hubs = listed_hubs(config.ranking.instant)[:HUBS]
    mu, sigma = (np.array([[getattr(hub, name)] for hub in hubs]) for name in ("mu", "sigma"))
    return {
        "days": rounded(LINK_DAYS),
        "urls": [hub.url for hub in hubs],
        "left": [rounded(row) for row in 1.0 - lognormal_cumulative(LINK_DAYS, mu, sigma)],
    }


def _signals(state: State, limit: int) -> list[dict[str, Any]]:
    """Return how far each source of signals is trusted."""
    return [
        {
            "kind": one.kind,
            "host": one.origin.partition("://")[2],
            "read": one.read,
            "pages": one.pages,
            "gaps": round(one.gaps),
            "recall": round(one.trust.recall, 2),
            "falsePerDay": float(f"{one.trust.false_per_day:.2g}"),
            "delayDays": float(f"{one.trust.delay_days:.2g}"),
        }
        for one in trusted_sources(state.store, limit)
    ]


def _experiment(state: State, config: Config, now: float) -> dict[str, Any] | None:
    if not config.ranking.experiment.is_on:
        return None
    told = answer(config, state, now)
    return told.as_json() | {"words": [list(sentences(one)) for one in told.comparisons]}


def _calibration(group: Group) -> dict[str, Any]:
    bins = reliability(group.p, group.found, site=group.site)
    score = group.score()
    columns: dict[str, NDArray[Any]] = asdict(bins)
    return {
        "policy": group.policy,
        "model": group.model,
        "bins": {name: rounded(values.tolist()) for name, values in columns.items()},
        "score": {
            name: rounded([value])[0]
            for name, value in (
                *asdict(score).items(),
                ("brier_skill", score.brier_skill),
                ("log_skill", score.log_skill),
            )
        },
    }
