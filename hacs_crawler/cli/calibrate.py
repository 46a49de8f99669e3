"""`hacs calibrate`: predictions against what visits found."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.table import Table as RichTable

from hacs_crawler.analysis import Table, table_of_rows
from hacs_crawler.cli.common import Set, Shards, opened
from hacs_crawler.cli.tables import Records, shows_rows
from hacs_crawler.ranking.calibration import Group, groups
from hacs_crawler.statistics import Expectation, reliability
from hacs_crawler.utils.terminal import column_table
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

BINS: Final = 10
BAR: Final = 30
"""How many characters the longest bar has."""
NOTHING_KNOWN: Final = (
    "no predicted visit is recorded yet: crawl pages that are known, then ask again"
)
_BIN: Final = ("visits", "predicted", "found", "low", "high")


@shows_rows()
def calibrate(shards: Shards = None, settings: Set = None) -> Records | None:
    """Compare predictions with what visits found.

    By policy and model: scores, and for visits of about the same p the share that found an update. Where
    p predicts worse than a constant would, it says what to do. --csv and --parquet have a row for each
    bin. See docs/estimation.md.
    """
    with opened(settings, shards) as (_, state):
        found = groups(state)
    if not found:
        logger.info(NOTHING_KNOWN)
        return None
    return Records(
        rows=lambda: _bin_rows(found),
        text=lambda: [score_table(found), *(part for group in found for part in _parts(group))],
        json=lambda: [json.dumps(_as_json(found), indent=1)],
    )


def _parts(group: Group) -> Iterator[str | RichTable]:
    """Yield what there is to say of a policy's predictions."""
    yield from ("", f"{group.policy}, {group.model}:")
    yield bin_table(group)
    yield from _advice(group)


def _advice(group: Group) -> Iterator[str]:
    """Yield what to do where p is worse than the same number for every visit."""
    score = group.score()
    if min(score.brier_skill, score.log_skill) < 0:
        base = 100.0 * score.found_updates / score.visits
        yield (
            f"The skill is negative: {base:.1f} % for every visit would have been the better "
            "prediction. The order of visits may be good all the same. Until it is positive use no "
            "HACS_THRESHOLD, which takes p at its word. What helps: more visits; `hacs estimate`, if "
            "HACS_ESTIMATOR or HACS_FADE_DAYS were changed; HACS_LINKS_DENY for links that change by "
            "themselves, on the pages that `hacs report` lists as churning."
        )


def _as_json(found: Sequence[Group]) -> dict[str, Any]:
    return {
        "predictions": [
            {
                "policy": group.policy,
                "model": group.model,
                **_score_json(group.score()),
                "advice": " ".join(_advice(group)) or None,
                "bins": _bins(group),
            }
            for group in found
        ]
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


def _bin_rows(found: Sequence[Group]) -> Table:
    """Return a row for each bin of each policy and model."""
    rows = [
        {"policy": group.policy, "model": group.model, **row}
        for group in found
        for row in _bins(group)
    ]
    texts = ("policy", "model")
    return table_of_rows(rows, texts=texts, names=(*texts, *_BIN))


def score_table(found: Sequence[Group]) -> RichTable:
    """Return a table of the predictions' scores, by policy and model."""
    scores = [group.score() for group in found]
    return column_table(
        {
            "policy": [group.policy for group in found],
            "model": [group.model for group in found],
            "visits": [score.visits for score in scores],
            "predicted": [f"{one.expected_updates:.1f}" for one in scores],
            "found": [str(one.found_updates) for one in scores],
            "Brier": [f"{one.brier:.4f}" for one in scores],
            "Brier skill": [_skill(one.brier_skill) for one in scores],
            "log loss": [f"{one.log_loss:.4f}" for one in scores],
            "log skill": [_skill(one.log_skill) for one in scores],
        },
        texts=("policy", "model"),
    )


def _bins(group: Group) -> list[dict[str, float]]:
    """Return the reliability diagram: shares of visits, `low` to `high` the interval of 95 %."""
    bins = reliability(group.p, group.found, BINS, group.site)
    columns = (
        bins.visits.tolist(),
        bins.mean_p.tolist(),
        bins.found_share.tolist(),
        bins.lower.tolist(),
        bins.upper.tolist(),
    )
    return [dict(zip(_BIN, row, strict=True)) for row in zip(*columns, strict=True)]


def bin_table(group: Group) -> RichTable:
    """Return the reliability diagram as a table: predicted and found, in per cent.

    A bar is as long as the share found, and has a mark where that predicted is.
    """
    bins = _bins(group)
    longest = max(*(row["predicted"] for row in bins), *(row["found"] for row in bins), 1e-9)
    bars = "found, and | where predicted"
    return column_table(
        {
            "visits": [row["visits"] for row in bins],
            **{name: [_percent(row[name]) for row in bins] for name in ("predicted", "found")},
            "95 % interval": [f"{_percent(row['low'])} to {_percent(row['high'])}" for row in bins],
            bars: [_bar(row["found"] / longest, row["predicted"] / longest) for row in bins],
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
