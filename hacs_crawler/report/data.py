"""All that a report shows, as one JSON document: sentences, tables, the numbers of charts, visits."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

import numpy as np

from hacs_crawler.config import Config
from hacs_crawler.experiment.answer import answer
from hacs_crawler.ranking.calibration import Group, groups
from hacs_crawler.ranking.plan import Plan, read_rows
from hacs_crawler.ranking.shard_rounds import plan_of_all
from hacs_crawler.report.overview import INTERVAL_EDGES_DAYS, overview
from hacs_crawler.report.pages import chances, history_of, load_pages, newest_table, pages_table
from hacs_crawler.report.runs import yields
from hacs_crawler.report.tables import (
    calibration_table,
    experiment_table,
    runs_table,
    short,
    signals_table,
)
from hacs_crawler.report.words import CALIBRATION, facts, headline, of_experiment, of_pages, of_plan
from hacs_crawler.state import State, describe, read_findings
from hacs_crawler.statistics import reliability
from hacs_crawler.utils.progress import Progress
from hacs_crawler.utils.times import minute_text

RUNS: Final = 500
"""How many of the latest runs are shown."""
CURVE_POINTS: Final = 200


def report_data(state: State, config: Config, now: float, limit: int) -> dict[str, Any]:
    """Return the document; `now` is in seconds since 1970 UTC, at least `limit` pages are listed.

    It does not grow with the number of pages known, though the memory that it takes to make it does.
    Raises StateError, and ConfigError where a policy does not return one number a page.
    """
    with Progress("report") as progress:
        known = read_rows(state, progress, now)
    view = overview(*known, now)
    plan = plan_of_all(state, config.ranking, now, known=known)
    outcomes = state.outcomes()
    runs = yields(outcomes, state.label, RUNS)
    experiment_answer = answer(config, state, now) if config.ranking.experiment.is_on else None
    calibrated = [group for group in groups(state, outcomes) if len(group.outcomes)]
    best = plan.page_ids[:limit]
    others = view.remarkable if view.known > limit else known[0]
    listed = np.concatenate([best, np.setdiff1d(others, best)])
    pages = load_pages(state, listed, now)
    chance = chances(state, config.ranking, listed, known, now)
    tables = {
        "newest": newest_table(pages, read_findings(state.store, list(pages))),
        "pages": pages_table(pages, plan, chance, now),
        "runs": runs_table(runs),
        "experiment": experiment_table(experiment_answer) if experiment_answer else [],
        "calibration": calibration_table(calibrated),
        "signals": signals_table(state, limit),
        "state": facts(state, config, view, outcomes),
    }
    return {
        "now": int(now),
        "subtitle": f"{describe(config.state)}, {minute_text(now)} UTC",
        "words": {
            "headline": [headline(view, plan, outcomes, now)],
            "plan": [of_plan(plan, config)],
            "pages": [of_pages(view)],
            "experiment": of_experiment(experiment_answer),
            "calibration": [CALIBRATION] * bool(calibrated),
        },
        "tables": {name: [column._asdict() for column in table] for name, table in tables.items()},
        "ids": [str(page_id) for page_id in pages],  # beyond what numbers in JavaScript hold
        "histories": [history_of(page) for page in pages.values()],
        "charts": {
            "runs": runs,
            "plan": _curves(plan),
            "chances": np.histogram(plan.p[plan.visits > 0], 20, (0, 1))[0].tolist(),
            "intervals": {"edges": INTERVAL_EDGES_DAYS.tolist(), "pages": view.intervals.tolist()},
            "comparisons": experiment_answer.as_json()["comparisons"] if experiment_answer else [],
            "calibration": [_reliability(group) for group in calibrated],
        },
    }


def _curves(plan: Plan) -> dict[str, list[Any]]:
    """Return how many updates the first visits of each arm are expected to find."""
    curves: dict[str, list[Any]] = {"name": [], "visits": [], "expected": []}
    for arm, name in enumerate(plan.arm_names):
        p = np.where(plan.visits > 0, plan.p, 0.0)[plan.arms == arm]
        sums = np.concatenate([[0.0], np.cumsum(p)])
        points = np.linspace(0, len(p), min(len(p), CURVE_POINTS) + 1)
        places = np.unique(points.round().astype(int)).tolist()
        curves["name"] += [name or "all visits"] * len(places)
        curves["visits"] += places
        curves["expected"] += [short(sums[place]) for place in places]
    return curves


def _reliability(group: Group) -> dict[str, Any]:
    bins = asdict(reliability(group.p, group.found, site=group.site))
    shown = ("mean_p", "found_share", "lower", "upper")
    return {
        "title": f"{group.policy}: predicted and found",
        "words": f"{len(group.outcomes):,} visits; {group.model}.",
        **{name: list(map(short, bins[name].tolist())) for name in shown},
    }
