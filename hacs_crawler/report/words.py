"""The sentences of a report, with commands in backticks, and facts about the state."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version

import numpy as np

from hacs_crawler.config import Config
from hacs_crawler.ranking.calibration import Group
from hacs_crawler.ranking.plan import Plan
from hacs_crawler.report.numbers import LATELY_DAYS, Overview
from hacs_crawler.report.tables import Column, Table
from hacs_crawler.state import MOST_OUTCOMES, SEEN, UPDATED, Outcomes, Rows, State, describe
from hacs_crawler.utils.text import counted
from hacs_crawler.utils.times import DAY

CALIBRATION = (
    "Of visits made with p = 0.3, three in ten should find an update. Points above the diagonal say "
    "that p is too low, points below it that p is too high."
)
NEGATIVE_SKILL = (
    "The skill of {policy} is negative: {share:.1f} % for every visit would have been the better "
    "prediction. The order of visits may still be good, but do not use `HACS_THRESHOLD`, which relies "
    "on the value of p, until the skill is positive. What helps: more visits; `hacs estimate`, if "
    "HACS_ESTIMATOR or HACS_FADE_DAYS were changed; `HACS_LINKS_DENY`, or for items "
    '`HACS_WATCH_IGNORE`, if something on the pages changes at every request; `HACS_UPDATES = "site"`, '
    "if new entries of a list move others to its next page."
)


def headline(view: Overview, plan: Plan, outcomes: Outcomes, now: float) -> str:
    """Return the updates of recent visits, and the expected updates of a crawl now, in words."""
    late = outcomes[(outcomes["at"] > now - LATELY_DAYS * DAY) & ((outcomes["flags"] & SEEN) > 0)]
    late = late[np.isfinite(late["days_since_visit"])]  # a page's first visit can find no update
    updates = int(((late["flags"] & UPDATED) > 0).sum())
    opening = (
        f"In the last {LATELY_DAYS} days {view.changed:,} of {counted(view.known, 'page')} changed, "
        f"and {updates:,} of {counted(len(late), 'ranked visit')} to known pages found an update."
    )
    if len(outcomes) and np.isinf(outcomes["days_since_visit"]).all():
        opening = "Every visit so far was a page's first: from the second on, updates can be found."
    expected = round(float(plan.p[plan.visits > 0].sum()))
    return (
        f"{opening} A crawl of all known pages would now make {counted(len(plan), 'visit')} and find "
        f"{f'about {expected:,}' if expected else 'hardly any'} update{'s' * (expected != 1)}."
    )


def of_plan(plan: Plan, config: Config) -> str:
    """Return the meaning of p, and the pages that the plan leaves out, in words."""
    budget, firsts = config.ranking.budget, int((plan.visits == 0).sum())
    reasons = (
        (plan.waiting, "gone for now"),
        (plan.below_threshold, f"below the threshold of {config.ranking.threshold:g}"),
        (plan.left_out, f"over the budget of {budget}"),
    )
    left = ", ".join(f"{number:,} {why}" for number, why in reasons if number)
    baseline = f"{counted(firsts, 'visit')} would be a page's first, which cannot find an update. "
    return (
        "p is the chance of an update since the last visit; the highest come first. "
        f"{f'Left out are {left}. ' * bool(left)}{baseline * bool(firsts)}"
        f"{'If the curve ends steeply, a larger budget would pay.' * bool(plan.left_out)}"
    )


def of_unranked(outcomes: Outcomes, rows: Rows) -> list[str]:
    """Return how few of the pages visited since the latest run began were ranked, if most were not."""
    began = outcomes["run"].max(initial=0)
    visited = int((rows["last_visit"] >= began).sum())
    ranked = len(np.unique(outcomes["page_id"][outcomes["at"] >= began]))
    sentence = (
        f"Of {visited:,} pages visited since the latest run began, only {ranked:,} had been ranked, and "
        "only these count for runs. With `HACS_BUDGET`, pages that a spider follows are ranked."
    )
    return [sentence] * (0 < 2 * ranked < visited)


def of_runs(runs: Mapping[str, Sequence[int]]) -> list[str]:
    """Return the cost of an update, and the savings compared to visiting every page in each run."""
    at, row = np.unique(runs["at"], return_inverse=True)
    new_pages = np.bincount(row, runs["pages"], len(at)).astype(np.int64)
    whole = int(np.cumsum(new_pages).sum())
    visits, updates, size = (sum(runs[name]) for name in ("visits", "updates", "bytes"))
    sentences = []
    if whole > visits:
        sentences.append(
            f"{counted(len(at), 'run')} made {counted(visits, 'visit')} to ranked pages. To visit all "
            f"these pages in every run, {whole:,} visits would have been needed."
        )
    if updates:
        sentences.append(
            f"An update cost {visits / updates:.1f} ranked visits and {size / updates / 1e3:,.1f} kB, "
            "first visits included."
        )
    return sentences


def of_delay(outcomes: Outcomes, number: int) -> list[str]:
    """Return the delay of updates, and the delay if all pages were visited in turn."""
    again = outcomes[np.isfinite(outcomes["days_since_visit"])]
    updated = again["days_since_visit"][(again["flags"] & UPDATED) > 0]
    runs = np.unique(again["run"]).astype(np.int64)
    if not len(updated) or len(runs) < 2:
        return []
    days = (runs[-1] - runs[0]) / DAY * len(runs) / (len(runs) - 1)
    # an update is equally likely at any time since the last visit: half of the gap, on average
    late, in_turn = float(updated.mean()) / 2, number * days / len(again) / 2
    sentence = (
        f"On average, an update was found {late:.1f} days after it happened. With as many visits, but "
        f"to all pages in turn, it would have been found after {in_turn:.1f} days."
    )
    return [sentence] if round(late, 1) < round(in_turn, 1) else []


def of_pages(view: Overview) -> str:
    """Return how many pages were seen, once or more often."""
    return (
        f"{view.visited:,} of {counted(view.known, 'page')} were seen, {view.evident:,} twice or more, "
        "so that there is evidence for their change rates. `hacs show URL` has more about a page."
    )


def of_calibration(some: Sequence[Group]) -> list[str]:
    """Return how to read the diagrams, and what helps if predictions are worse than a constant p."""
    sentences = [CALIBRATION] * bool(some)
    for group in some:
        score = group.score()
        if min(score.brier_skill, score.log_skill) < 0:
            share = 100 * score.found_updates / score.visits
            sentences.append(NEGATIVE_SKILL.format(policy=group.policy, share=share))
    return sentences


def facts(state: State, config: Config, view: Overview, outcomes: Outcomes) -> Table:
    """Return facts about the state, and the settings of ranking."""
    size = state.store.size_bytes()
    options, estimation = config.ranking, config.estimation
    lines = {
        "State": f"{describe(config.state)}, namespace {config.own_namespace}",
        "Size": f"{size / 1e6:,.2f} MB, {size / max(view.known, 1):,.0f} bytes a page",
        "Visits recorded with their p": f"{len(outcomes):,}, at most {MOST_OUTCOMES:,}",
        "Updates that a site's pages share": f"{state.estimation.sibling_correlation:.0%}",
        "Version": version("hacs-crawler"),
        "HACS_POLICY": options.policy.name,
        "HACS_ESTIMATOR": f"{estimation.estimator}, HACS_FADE_DAYS {estimation.fade_days:g}",
        "HACS_ELAPSED_FROM": f"{options.elapsed_from}, HACS_SIBLINGS {options.siblings}",
        "HACS_THRESHOLD": f"{options.threshold:g}",
        "HACS_BUDGET": "none" if options.budget is None else f"{options.budget:,}",
    }
    names = Column("Name", "text", list(lines), "A setting, or a fact about the state")
    return [names, Column("Value", "text", list(lines.values()), "Its value")]
