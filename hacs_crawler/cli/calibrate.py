"""`hacs calibrate`: predictions against outcomes, and the corrections that follow from them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np
import typer
from rich.table import Table as Shown

from hacs_crawler.analysis import Table, table_of_rows
from hacs_crawler.cli.clusters import Dask, workers_of
from hacs_crawler.cli.common import Set, Shards, opened
from hacs_crawler.cli.tables import Records, shows_rows
from hacs_crawler.cluster import check_cluster
from hacs_crawler.config import Config
from hacs_crawler.ranking.calibration import (
    FOLDS,
    Fit,
    Group,
    by_model,
    corrected_models,
    fit,
    found_update,
    groups,
    remove_correction,
    shortage,
    write_correction,
)
from hacs_crawler.state import Outcomes, State
from hacs_crawler.statistics import Expectation, reliability, summary
from hacs_crawler.utils.progress import Progress
from hacs_crawler.utils.terminal import column_table
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

BINS: Final = 10
BAR: Final = 30
"""How many characters the longest bar has."""
NOTHING_KNOWN: Final = (
    "no predicted visit is recorded yet: crawl pages that are known, then ask again"
)


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What became of one model: the fit, or `missing`, what it lacks; and what was done."""

    model: str
    outcomes: Outcomes
    made: Fit | None
    missing: str | None
    action: str

    @property
    def score(self) -> Expectation:
        """The predictions before any correction."""
        visits = Group("", self.model, self.outcomes)
        return summary(visits.raw_p, visits.found)


@shows_rows()
def calibrate(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="show what a correction would do, keep nothing")
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="forget all corrections")] = False,
    dask: Dask = None,
    shards: Shards = None,
    settings: Set = None,
) -> Records | None:
    """Compare predictions with what visits found, and fit corrections of them.

    A correction makes p the share of visits that find an update, without changing the pages' order. It
    is kept where it predicts other sites' visits better than none, and crawls apply it unless
    HACS_CALIBRATION is False. Where p predicts worse than a constant would, it says what to do. --csv
    and --parquet have a row for each bin. See docs/calibration.md.
    """
    if dry_run and remove:
        raise typer.BadParameter("--dry-run and --remove exclude each other")
    with opened(settings, shards, writes=not dry_run) as (config, state):
        if remove:
            _remove_all(state)
            return None
        if dask is not None:
            check_cluster(dask)
        with Progress("calibrate") as progress:
            progress.update("reading what visits found")
            found = groups(state)
            if not found:
                logger.info(NOTHING_KNOWN)
                return None
            models = by_model(found)
            fits = _fitted(models, dask, progress)
        all_ = [
            _calibrated(config, state, model, outcomes, fits.get(model), keeps=not dry_run)
            for model, outcomes in models.items()
        ]
    return Records(
        rows=lambda: _bin_rows(all_),
        text=lambda: [score_table(found), *(part for one in all_ for part in _parts(one))],
        json=lambda: [json.dumps(_as_json(found, all_), indent=1)],
    )


def _remove_all(state: State) -> None:
    models = [model for model in corrected_models(state) if remove_correction(state, model)]
    number = counted(len(models), "correction")
    logger.info("%s forgotten%s", number, "".join(f"; {one}" for one in models))


def _fitted(models: dict[str, Outcomes], dask: str | None, progress: Progress) -> dict[str, Fit]:
    """Fit the correction of each model of which enough is known."""
    known = {model: outcomes for model, outcomes in models.items() if shortage(outcomes) is None}
    fits = {}
    with workers_of(dask if known else None) as workers:
        for done, (model, outcomes) in enumerate(known.items()):
            progress.update(f"fitting {model}", done, len(known))
            fits[model] = fit(outcomes, workers)
    return fits


def _calibrated(
    config: Config, state: State, model: str, outcomes: Outcomes, made: Fit | None, *, keeps: bool
) -> Calibrated:
    """Keep the correction of a model if it helps and that is wanted."""
    if made is None:
        missing = shortage(outcomes)
        return Calibrated(model, outcomes, None, missing, f"no correction can be fitted: {missing}")
    if not made.is_better:
        action = "A correction would not predict other sites better"
        if keeps:
            action += ": none is kept"
            if remove_correction(state, model):
                action += ". The one kept before is forgotten"
    elif not keeps:
        action = "The correction would be kept (--dry-run: it is not)"
    else:
        write_correction(state, model, made.correction)
        action = "The correction is kept for the next crawls"
        if not config.ranking.calibration:
            action += ", but HACS_CALIBRATION is False: they do not apply it"
    return Calibrated(model, outcomes, made, None, action)


def _parts(one: Calibrated) -> Iterator[str | Shown]:
    """Yield what there is to say of a model."""
    yield ""
    if one.made is None:
        yield f"{one.model}: {one.action}"
    else:
        yield (
            f"{one.model}: without correction, and corrected by the visits of other sites "
            f"({FOLDS} parts)"
        )
        scores = _score_columns([one.made.raw, one.made.crossed])
        yield column_table({"": ["without", "corrected"], **scores}, texts=("",))
        yield ""
        yield bin_table(one.made, one.outcomes)
        yield ""
        yield one.action
    yield from _advice(one)


def _advice(one: Calibrated) -> Iterator[str]:
    """Yield what to do where p is worse than the same number for every visit."""
    score = one.score
    skills = score.brier_skill, score.log_skill
    if not min(skills) < 0:
        return
    corrected = None if one.made is None else one.made.crossed
    base = 100.0 * score.found_updates / score.visits
    yield (
        f"The skill is negative: {base:.1f} % for every visit would have been the better prediction. "
        "The order of visits may be good all the same."
    )
    if one.made is not None and one.made.is_better and corrected is not None:
        is_mended = min(corrected.brier_skill, corrected.log_skill) >= 0
        yield (
            "The correction mends it: leave HACS_CALIBRATION on, and look again after the next crawls."
            if is_mended
            else "The correction helps, but not enough: use no HACS_THRESHOLD until it does."
        )
        return
    yield (
        "Until it is positive use no HACS_THRESHOLD, which takes p at its word. What helps: more visits "
        "(a correction takes 200 of 10 sites); `hacs estimate`, if HACS_ESTIMATOR or HACS_FADE_DAYS "
        "were changed; HACS_LINKS_DENY for links that change by themselves, on the pages that "
        "`hacs report` lists as churning."
    )


def _as_json(found: Sequence[Group], models: Sequence[Calibrated]) -> dict[str, Any]:
    return {
        "predictions": [
            {"policy": one.policy, "model": one.model, **_score_json(one.score())} for one in found
        ],
        "models": [
            {
                "model": one.model,
                "missing": one.missing,
                "without": _score_json(one.score),
                "corrected": None if one.made is None else _score_json(one.made.crossed),
                "is_better": one.made is not None and one.made.is_better,
                "action": one.action,
                "advice": " ".join(_advice(one)) or None,
                "bins": [] if one.made is None else _bins(one.made, one.outcomes),
            }
            for one in models
        ],
    }


def _score_json(score: Expectation) -> dict[str, float | None]:
    values = {
        "visits": score.visits,
        "predicted": score.expected_updates,
        "found": score.found_updates,
        "brier": score.brier,
        "brier_skill": score.brier_skill,
        "log_loss": score.log_loss,
        "log_skill": score.log_skill,
    }
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def _bin_rows(models: Sequence[Calibrated]) -> Table:
    """Return a row for each bin of each model, none where nothing could be fitted."""
    rows = [
        {"model": one.model, **row}
        for one in models
        if one.made is not None
        for row in _bins(one.made, one.outcomes)
    ]
    return table_of_rows(rows, texts=("model",), names=("model", *_BIN))


def score_table(found: Sequence[Group]) -> Shown:
    """Return a table of the predictions as they were made, by policy and model."""
    scores = [group.score() for group in found]
    return column_table(
        {
            "policy": [group.policy for group in found],
            "model": [group.model for group in found],
            "visits": [score.visits for score in scores],
            **_score_columns(scores),
        },
        texts=("policy", "model"),
    )


def _score_columns(scores: Sequence[Expectation]) -> dict[str, list[str]]:
    return {
        "predicted": [f"{one.expected_updates:.1f}" for one in scores],
        "found": [str(one.found_updates) for one in scores],
        "Brier": [f"{one.brier:.4f}" for one in scores],
        "Brier skill": [_skill(one.brier_skill) for one in scores],
        "log loss": [f"{one.log_loss:.4f}" for one in scores],
        "log skill": [_skill(one.log_skill) for one in scores],
    }


_BIN: Final = ("visits", "predicted", "corrected", "found", "low", "high")


def _bins(made: Fit, outcomes: Outcomes) -> list[dict[str, float]]:
    """Return the reliability diagram: shares of visits, `low` to `high` the interval of 95 %."""
    bins = reliability(made.raw_p, found_update(outcomes), BINS, outcomes["site"])
    crossed_p = made.crossed_p[made.raw_p.argsort(kind="stable")]
    corrected = np.split(crossed_p, bins.visits.cumsum()[:-1])
    columns = (
        bins.visits.tolist(),
        bins.mean_p.tolist(),
        [float(part.mean()) for part in corrected],
        bins.found_share.tolist(),
        bins.lower.tolist(),
        bins.upper.tolist(),
    )
    return [dict(zip(_BIN, row, strict=True)) for row in zip(*columns, strict=True)]


def bin_table(made: Fit, outcomes: Outcomes) -> Shown:
    """Return the reliability diagram as a table: predicted, corrected, and found, in per cent.

    A bar is as long as the share found, and has a mark where that predicted without correction is.
    """
    bins = _bins(made, outcomes)
    longest = max(*(one["predicted"] for one in bins), *(one["found"] for one in bins), 1e-9)
    bars = "found, and | where predicted"
    return column_table(
        {
            "visits": [one["visits"] for one in bins],
            **{
                name: [_percent(one[name]) for one in bins]
                for name in ("predicted", "corrected", "found")
            },
            "95 % interval": [f"{_percent(one['low'])} to {_percent(one['high'])}" for one in bins],
            bars: [_bar(one["found"] / longest, one["predicted"] / longest) for one in bins],
        },
        texts=(bars,),
    )


def _bar(share: float, mark: float) -> str:
    cells = list(("#" * round(BAR * share)).ljust(BAR))
    cells[min(int(BAR * mark), BAR - 1)] = "|"
    return "".join(cells)


def _percent(share: float) -> str:
    return f"{100.0 * share:.2f} %"


def _skill(skill: float) -> str:
    return "-" if math.isnan(skill) else f"{100.0 * skill:+.1f} %"
