"""Predictions against outcomes: how far they agree, and the corrections that the state keeps.

Only visits that were predicted count: of pages that had been seen before and were observed this time.
The p of a page never visited is 1 by convention, not a prediction. What is compared is the chance of any
new links with whether there were any: p is the chance of those that time brings, and where a page churns
nobody can tell of one visit which they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.cluster import HERE, Workers
from hacs_crawler.state import (
    SEEN,
    UPDATED,
    Label,
    Outcomes,
    State,
    chance_of_new_links,
    churn_of,
    read_note,
    sorted_outcomes,
)
from hacs_crawler.statistics import Correction, Expectation, clustered_z, fit_isotonic, summary

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

MIN_VISITS: Final = 200
MIN_UPDATES: Final = 20
"""Of updates found, or expected if that is more. From here on a correction of predictions that are off
makes them worse in a tenth of cases at most, and costs predictions that are right less than 1 % of their
log loss (benchmarks/calibration.py)."""
MIN_SITES: Final = 10
"""The visits of a few sites tell little about the others."""
FOLDS: Final = 5
"""In so many parts the sites are cut to judge a correction by visits that it was not fitted to."""

DRIFT_VISITS: Final = 1_000
DRIFT_RUNS: Final = 3
DRIFT_RATIO: Final = 1.25
DRIFT_Z: Final = 3.5
"""Looked at after each of a year's daily runs, predictions that are right are called drifting in less
than 5 % of states (benchmarks/calibration.py)."""

_INDEX: Final = "calibrations"


@dataclass(frozen=True, slots=True)
class Group:
    """The predicted visits of one policy and model, by time; `model` is `Label.model`."""

    policy: str
    model: str
    outcomes: Outcomes

    @property
    def p(self) -> Floats:
        """The probabilities of new links: p as it was used to rank, with what churn adds to it."""
        return _chance(self.outcomes, "p")

    @property
    def raw_p(self) -> Floats:
        """The probabilities before any correction."""
        return _chance(self.outcomes, "raw_p")

    @property
    def found(self) -> Bools:
        """Whether each visit found an update."""
        return found_update(self.outcomes)

    @property
    def site(self) -> NDArray[np.uint32]:
        """The site of each visit's page."""
        return np.asarray(self.outcomes["site"])

    def score(self) -> Expectation:
        """Return what was predicted against what was found."""
        return summary(self.p, self.found)


@dataclass(frozen=True, slots=True)
class Fit:
    """A correction, and the scores of the visits it was fitted to.

    `raw` is without correction, `crossed` with corrections that were each fitted to the other sites:
    what to expect of pages to come. `raw_p` and `crossed_p` are the probabilities.
    """

    correction: Correction
    raw: Expectation
    crossed: Expectation
    raw_p: Floats
    crossed_p: Floats

    @property
    def is_better(self) -> bool:
        """Whether other sites' visits are predicted better with correction than without."""
        return self.crossed.log_loss < self.raw.log_loss


@dataclass(frozen=True, slots=True)
class Drift:
    """Predictions that have differed from outcomes for long."""

    visits: int
    runs: int
    expected_updates: float
    found_updates: int

    def __str__(self) -> str:
        """Return a sentence for the log."""
        excess = self.found_updates - self.expected_updates
        share = (
            f"{100.0 * abs(excess) / self.expected_updates:.0f} % " if self.expected_updates else ""
        )
        return (
            f"for the last {self.visits:,} predicted visits (in {self.runs} runs) {share}"
            f"{'more' if excess > 0.0 else 'fewer'} updates were found than predicted "
            f"({self.found_updates}, not {self.expected_updates:.1f}); "
            "`hacs calibrate` fits a correction"
        )


def predicted(outcomes: Outcomes) -> Outcomes:
    """Return the records of visits that were predicted."""
    is_seen = (outcomes["flags"] & SEEN) > 0
    made: Outcomes = outcomes[is_seen & np.isfinite(outcomes["days_since_visit"])]
    return made


def found_update(outcomes: Outcomes) -> Bools:
    """Return whether each visit found an update."""
    return np.asarray((outcomes["flags"] & UPDATED) > 0)


def _chance(outcomes: Outcomes, name: str) -> Floats:
    """Return the probability that was given to what is counted: new links, whoever brought them."""
    chance: Floats = chance_of_new_links(outcomes[name].astype(np.float64), churn_of(outcomes))
    return chance


def groups(state: State, outcomes: Outcomes | None = None) -> list[Group]:
    """Return the predicted visits by policy and model, in the order of these names.

    `outcomes` are the state's outcome records, where they have been read already. Records whose label
    the state does not have are left out. Raises StateError.
    """
    outcomes = predicted(state.outcomes() if outcomes is None else outcomes)
    numbers: dict[tuple[str, str], list[int]] = {}
    for number, label in _labels(state, outcomes):
        numbers.setdefault((label.policy, label.model), []).append(number)
    return [
        Group(*name, outcomes[np.isin(outcomes["label"], numbers[name])])
        for name in sorted(numbers)
    ]


def by_model(some: Iterable[Group]) -> dict[str, Outcomes]:
    """Return the records of each model, by time, whatever the policy."""
    parts: dict[str, list[Outcomes]] = {}
    for group in some:
        parts.setdefault(group.model, []).append(group.outcomes)
    return {model: sorted_outcomes(of_model) for model, of_model in parts.items()}


def _labels(state: State, outcomes: Outcomes) -> Iterator[tuple[int, Label]]:
    for number in np.unique(outcomes["label"]).tolist():
        label = state.label(number)
        if label is not None:
            yield number, label


def shortage(outcomes: Outcomes) -> str | None:
    """Return what is missing for a correction to be fitted to these records, None if nothing is."""
    outcomes = predicted(outcomes)
    updates = max(float(_chance(outcomes, "raw_p").sum()), float(found_update(outcomes).sum()))
    for number, least, name in (
        (len(outcomes), MIN_VISITS, "predicted visits"),
        (int(updates), MIN_UPDATES, "updates found or expected"),
        (len(np.unique(outcomes["site"])), MIN_SITES, "sites"),
    ):
        if number < least:
            return f"{number} {name}, at least {least} are needed"
    return None


def fit(outcomes: Outcomes, workers: Workers = HERE) -> Fit:
    """Fit a correction to the records of one model, and judge it by cross-validation over sites.

    Workers fit one each: to all sites, and to all but those of each fold.
    """
    outcomes = predicted(outcomes)
    raw_p, found = _chance(outcomes, "raw_p"), found_update(outcomes)
    crossed_p = raw_p.copy()
    fold = outcomes["site"] % FOLDS  # a site's number is a hash
    known = workers.kept((raw_p, found, fold))
    correction, *others = workers.mapped(_fitted_without, [None, *range(FOLDS)], known)
    for number, of_others in enumerate(others):
        is_left_out = fold == number
        crossed_p[is_left_out] = of_others(raw_p[is_left_out])
    return Fit(
        correction=correction,
        raw=summary(raw_p, found),
        crossed=summary(crossed_p, found),
        raw_p=raw_p,
        crossed_p=crossed_p,
    )


def _fitted_without(
    left_out: int | None, known: tuple[Floats, Bools, NDArray[np.uint32]]
) -> Correction:
    """Return the correction fitted to predictions and outcomes, but for those of a fold."""
    raw_p, found, fold = known
    if left_out is None:
        return fit_isotonic(raw_p, found)
    is_fitted = fold != left_out
    return fit_isotonic(raw_p[is_fitted], found[is_fitted])


def drift(outcomes: Outcomes, correction: Correction | None = None) -> Drift | None:
    """Return how predictions have differed from what was found for long, None where they have not.

    `outcomes` are the records of one model, by time; looked at are the last DRIFT_VISITS predicted ones,
    in at least DRIFT_RUNS runs. The predictions are those that would be made now, with the present
    `correction`: what another one did wrong is mended already. It is a drift where the updates
    found are outside of 1 / DRIFT_RATIO to DRIFT_RATIO times those predicted, on the same side in each
    third of the visits, and DRIFT_Z standard errors away, with the site as the unit.
    """
    latest = predicted(outcomes)[-DRIFT_VISITS:]
    runs = len(np.unique(latest["run"]))
    if len(latest) < DRIFT_VISITS or runs < DRIFT_RUNS:
        return None
    p, found = _chance(latest, "raw_p"), found_update(latest)
    if correction is not None:
        p = correction(p)
    expected, updates = float(p.sum()), int(found.sum())
    if expected / DRIFT_RATIO <= updates <= expected * DRIFT_RATIO:
        return None
    sides = {float(part.sum()) > 0.0 for part in np.array_split(found - p, 3)}
    if len(sides) > 1 or abs(clustered_z(p, found, latest["site"])) < DRIFT_Z:
        return None
    return Drift(len(latest), runs, expected, updates)


def drift_of(
    state: State, model: str, outcomes: Outcomes | None = None, *, is_corrected: bool
) -> Drift | None:
    """Return the drift of a model, as `drift`, with the state's correction if crawls apply it.

    `is_corrected` is the setting HACS_CALIBRATION, `outcomes` as for `groups`. Raises StateError.
    """
    own = by_model(groups(state, outcomes)).get(model)
    if own is None:
        return None
    return drift(own, read_correction(state, model) if is_corrected else None)


def read_correction(state: State, model: str) -> Correction | None:
    """Return the correction that the state keeps for a model, None if it keeps none.

    Raises StateError that names the note where it is damaged.
    """
    return read_note(state.store, _key(model), Correction, "`hacs calibrate --remove` forgets it")


def write_correction(state: State, model: str, correction: Correction) -> None:
    """Keep a correction for a model, in place of any other."""
    known = corrected_models(state)
    if model not in known:  # the list first: what is on it can be removed
        state.store.write_meta(_INDEX, [*known, model])
    state.store.write_meta(_key(model), asdict(correction))


def remove_correction(state: State, model: str) -> bool:
    """Forget the correction of a model; return whether there was one, damaged or not."""
    was_there = state.store.read_meta(_key(model)) is not None
    if was_there:
        state.store.write_meta(_key(model), None)
    known = corrected_models(state)
    if model in known:
        state.store.write_meta(_INDEX, [name for name in known if name != model])
    return was_there


def corrected_models(state: State) -> list[str]:
    """Return the models for which a correction was ever written and not removed."""
    return read_note(state.store, _INDEX, list[str]) or []


def _key(model: str) -> str:
    return f"calibration/{model}"
