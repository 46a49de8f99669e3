"""Outcome records for the tests of calibration."""

import numpy as np

from hacs_crawler.state import OUTCOME, SEEN, UPDATED, Label, Outcomes, State


def label(policy="hacs", estimator="bayes", **changes) -> Label:
    values = {"fade_days": 365.0, "elapsed_from": "visit"}
    values |= {"siblings": True} | changes
    return Label(policy=policy, estimator=estimator, **values)


BAYES = label().model


def records(p, found, *, by=None, runs=10, sites=61, first_at=1_000_000) -> Outcomes:
    """Visits in the order given: evenly over runs, each of a page of its own, sites in turn."""
    made = np.zeros(len(p), OUTCOME)
    places = np.arange(len(p))
    made["page_id"] = first_at + places
    made["at"] = first_at + places
    made["run"] = 1 + places * runs // max(len(p), 1)
    made["site"] = places % sites
    made["label"] = (by or label()).number
    made["p"] = p
    made["days_since_visit"] = 3.0
    made["flags"] = SEEN + UPDATED * np.asarray(found, np.bool_)
    return made


def drawn(size, true_share, *, seed=1, **how) -> Outcomes:
    """Visits with random p, an update found in the share that `true_share` gives to p."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.0, 0.5, size)
    return records(p, rng.random(size) < true_share(p), **how)


def keep(state: State, outcomes: Outcomes, by: Label | None = None) -> None:
    state.keep_label(by or label())
    state.store.add_outcomes(outcomes)
