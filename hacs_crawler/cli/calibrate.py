"""`hacs calibrate`: predictions against outcomes, and the corrections that follow from them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Final

import typer

from hacs_crawler.cli.common import Set, opened, say, writing_to_stdout
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
from hacs_crawler.statistics import Expectation, reliability
from hacs_crawler.utils.progress import Progress
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

BINS: Final = 10
SCORES: Final = ("predicted", "found", "Brier", "skill", "log loss", "skill")
BAR: Final = 30
"""How many characters the longest bar has."""


def calibrate(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="show what a correction would do, keep nothing")
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="forget all corrections")] = False,
    settings: Set = None,
) -> None:
    """Compare predictions with what visits found, and fit corrections of them.

    A correction makes p the share of visits that find an update, without changing the pages' order. It
    is kept where it predicts other sites' visits better than none, and crawls apply it unless
    HACS_CALIBRATION is False. See docs/calibration.md.
    """
    if dry_run and remove:
        raise typer.BadParameter("--dry-run and --remove exclude each other")
    with opened(settings, writes=not dry_run) as (config, state), writing_to_stdout():
        if remove:
            _remove_all(state)
            return
        with Progress("calibrate") as progress:
            progress.update("reading what visits found")
            lines = list(_compared(config, state, progress, keeps=not dry_run))
        for line in lines:
            say(line)


def _compared(config: Config, state: State, progress: Progress, *, keeps: bool) -> Iterator[str]:
    """Fit the correction of each model and yield what there is to say."""
    found = groups(state)
    if not found:
        logger.info(
            "no predicted visit is recorded yet: crawl pages that are known, then ask again"
        )
        return
    yield from score_table(found)
    models = by_model(found)
    for done, (model, outcomes) in enumerate(models.items()):
        progress.update(f"fitting {model}", done, len(models))
        yield from _calibrated(config, state, model, outcomes, keeps=keeps)


def _remove_all(state: State) -> None:
    models = [model for model in corrected_models(state) if remove_correction(state, model)]
    logger.info("%d corrections forgotten%s", len(models), "".join(f"; {one}" for one in models))


def _calibrated(
    config: Config, state: State, model: str, outcomes: Outcomes, *, keeps: bool
) -> Iterator[str]:
    """Fit the correction of a model, keep it if it helps and that is wanted, and yield what was done."""
    yield ""
    missing = shortage(outcomes)
    if missing is not None:
        yield f"{model}: no correction can be fitted: {missing}"
        return
    made = fit(outcomes)
    yield f"{model}: without correction, and corrected by the visits of other sites ({FOLDS} parts)"
    yield from score_lines(made)
    yield ""
    yield from bin_table(made, outcomes)
    yield ""
    if not made.is_better:
        yield "A correction would not predict other sites better" + (
            ": none is kept" if keeps else ""
        )
        if keeps and remove_correction(state, model):
            yield "The one kept before is forgotten"
    elif not keeps:
        yield "The correction would be kept (--dry-run: it is not)"
    else:
        write_correction(state, model, made.correction)
        applied = (
            ""
            if config.ranking.calibration
            else ", but HACS_CALIBRATION is False: they do not apply it"
        )
        yield f"The correction is kept for the next crawls{applied}"


def score_table(found: Sequence[Group]) -> Iterator[str]:
    """Yield a table of the predictions as they were made, by policy and model."""
    rows = []
    for group in found:
        score = group.score()
        rows.append([group.policy, group.model, str(score.visits), *_scores(score)])
    titles = ["policy", "model", "visits", *SCORES]
    return _aligned([titles, *rows], texts=2)


def score_lines(made: Fit) -> Iterator[str]:
    """Yield the scores before and after."""
    rows = [["without", *_scores(made.raw)], ["corrected", *_scores(made.crossed)]]
    return _aligned([["", *SCORES], *rows], texts=1)


def _scores(score: Expectation) -> list[str]:
    return [
        f"{score.expected_updates:.1f}",
        str(score.found_updates),
        f"{score.brier:.4f}",
        _skill(score.brier_skill),
        f"{score.log_loss:.4f}",
        _skill(score.log_skill),
    ]


def bin_table(made: Fit, outcomes: Outcomes) -> Iterator[str]:
    """Yield the reliability diagram as a table: predicted, corrected, and found, in per cent.

    A bar is as long as the share found, and has a mark where that predicted without correction is.
    """
    raw_p, found = made.raw_p, found_update(outcomes)
    bins = reliability(raw_p, found, BINS, outcomes["site"])
    ends = bins.visits.cumsum()
    crossed_p = made.crossed_p[raw_p.argsort(kind="stable")]
    longest = max(float(bins.mean_p.max()), float(bins.found_share.max()), 1e-9)
    rows = []
    for place, visits in enumerate(bins.visits.tolist()):
        corrected = crossed_p[ends[place] - visits : ends[place]].mean()
        share, mean_p = float(bins.found_share[place]), float(bins.mean_p[place])
        rows.append(
            [
                str(visits),
                _percent(mean_p),
                _percent(corrected),
                _percent(share),
                f"{_percent(bins.lower[place])} to {_percent(bins.upper[place])}",
                _bar(share / longest, mean_p / longest),
            ]
        )
    bar_title = "found, and | where predicted".ljust(BAR)
    titles = ["visits", "predicted", "corrected", "found", "95 % interval", bar_title]
    return _aligned([titles, *rows], texts=0)


def _bar(share: float, mark: float) -> str:
    cells = list(("#" * round(BAR * share)).ljust(BAR))
    cells[min(int(BAR * mark), BAR - 1)] = "|"
    return "".join(cells)


def _percent(share: float) -> str:
    return f"{100.0 * share:.2f} %"


def _skill(skill: float) -> str:
    return "-" if math.isnan(skill) else f"{100.0 * skill:+.1f} %"


def _aligned(rows: Sequence[Sequence[str]], texts: int) -> Iterator[str]:
    """Yield rows in columns of one width, the first `texts` of them flush left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if place < texts else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
