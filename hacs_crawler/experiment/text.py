"""An experiment's answer in sentences, and the lines of its table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from hacs_crawler.experiment.answer import ArmSummary, ExperimentAnswer
from hacs_crawler.experiment.comparison import (
    LARGEST,
    MIN_EFFECTIVE_SITES,
    MIN_UPDATED_SITES,
    SOUGHT_RATIO,
    Comparison,
    Interval,
)
from hacs_crawler.utils.times import day_text

FIRST_VISITS: Final = (
    "Every attempt is a visit, for it cost budget; but a page's first cannot find an update, and the "
    "lines below the number of them leave them out."
)
BACKLOG: Final = (
    "Most pages have been visited but once since the experiment began, and those visits also found what "
    "had gathered before: a longer run may tell otherwise."
)
UNEQUAL: Final = (
    "This compares no equals: the settings split the budget otherwise than by the arms' pages, and "
    "fewer visits a page find more by each."
)
_LEAST_TOLD: Final = 0.005
"""A bound below it would be shown as 0.00."""
_SOUGHT: Final = f"{100 * (SOUGHT_RATIO - 1):.0f} %"

ROWS: Final[Mapping[str, Callable[[ArmSummary], str]]] = MappingProxyType(
    {
        "share": lambda one: f"{one.share:g}",
        "pages known": lambda one: f"{one.pages:,}",
        "estimated freshness": lambda one: _shown(one.freshness, 3),
        "pages visited": lambda one: f"{one.pages_visited:,}",
        "sites visited": lambda one: f"{one.sites:,}",
        "visits": lambda one: f"{one.visits:,}",
        "of them answered": lambda one: f"{one.answered:,}",
        "of them a page's first": lambda one: f"{one.first_visits:,}",
        "visits with an update": lambda one: f"{one.updates:,}",
        "of them new to the site": lambda one: f"{one.site_updates:,}",
        "brought by time": lambda one: f"{one.updates_by_time:,.1f}",
        "updates per 100 visits": lambda one: _shown(one.updates_per_100_visits, 1),
        "new links per visit": lambda one: _shown(one.new_links_per_visit, 2),
        "bytes per update": lambda one: _shown(one.bytes_per_update, 0),
        "mean days since last visit": lambda one: _shown(one.mean_days_since_visit, 1),
        "estimated discovery delay, days": lambda one: _shown(one.delay_days, 1),
    }
)


def paragraphs(answer: ExperimentAnswer) -> list[str]:
    """Return what can and cannot be concluded, one paragraph a comparison, and how visits count."""
    if answer.first_visit is None or answer.last_visit is None:
        return ["No visit of this experiment is recorded yet: crawl with its settings first."]
    span = f"Visits from {day_text(answer.first_visit)} to {day_text(answer.last_visit)}. {FIRST_VISITS}"
    texts = [" ".join(sentences(comparison)) for comparison in answer.comparisons]
    visits = sum(arm.visits for arm in answer.arms)
    is_short = visits < 2 * sum(arm.pages_visited for arm in answer.arms)
    return [span, *texts, *([BACKLOG] if is_short else [])]


def sentences(comparison: Comparison) -> Iterator[str]:
    """Yield what a comparison tells, a sentence at a time."""
    arm, control = comparison.arm, comparison.control
    if comparison.verdict == "too early":
        yield f"Too early to compare {arm} with {control}: {_missing(comparison)}."
        return
    allowance = (
        ", after allowing for how often the arms' sites had been updated before the experiment"
        if comparison.is_adjusted
        else ""
    )
    yield (
        f"{arm} finds {100 * comparison.rate:.1f} updates per 100 visits and {control} "
        f"{100 * comparison.control_rate:.1f}: {_times(comparison.ratio)} as many{allowance}."
    )
    if not comparison.is_of_equals:
        yield UNEQUAL
    yield from _carried(comparison)
    yield _concluded(comparison)
    low, high = comparison.ratio_bootstrap
    yield (
        f"If you look only once, the bootstrap over sites gives {_times(low)} to {_times(high)}, or "
        f"{_per_100(comparison.difference_bootstrap)} updates per 100 visits."
    )
    yield _what_is_needed(comparison)


def _carried(pair: Comparison) -> Iterator[str]:
    """Yield what to know where few sites carry the result: how few, and what is not allowed for."""
    parts = [
        f"{name}'s visits to {visited:,} sites tell no more than those to {effective:.1f} sites of "
        f"equal size would (its {LARGEST} largest have {100 * share:.0f} % of them)"
        for name, visited, effective, share, is_few in zip(
            (pair.arm, pair.control),
            pair.visited_sites,
            pair.effective_sites,
            pair.largest_share,
            pair.carried_by_few,
            strict=True,
        )
        if is_few
    ]
    if parts:
        yield f"Few sites carry this: {' and '.join(parts)}."
    if min(pair.effective_sites) < MIN_EFFECTIVE_SITES:
        yield (
            f"With fewer than {MIN_EFFECTIVE_SITES} such sites, what was known of them before is not "
            "allowed for."
        )


def _concluded(pair: Comparison) -> str:
    low, high = pair.ratio_anytime
    confidence = f"With {100 * (1 - pair.alpha):.3g} % confidence, however often one looks,"
    interval = (
        f"{confidence} the ratio is between {low:.2f} and {high:.2f}"
        if math.isfinite(high)
        else f"{confidence} the ratio is above {low:.2f}"
        if low >= _LEAST_TOLD
        else f"{confidence} nothing can be said of the ratio yet"
    )
    if pair.verdict in {"more", "fewer"}:
        since = f" since {day_text(pair.decided_at)}" if pair.decided_at is not None else ""
        return (
            f"{interval}. So {pair.arm} does find {pair.verdict} than {pair.control}. This could be said"
            f"{since}, and the experiment may end."
        )
    bound = low > 1.0 / SOUGHT_RATIO and high < SOUGHT_RATIO
    also = f", but a difference of {_SOUGHT} or more can be ruled out" if bound else ""
    open_ = f"So it cannot be said which of the two finds more, nor that they are equal{also}."
    return f"{interval}. {open_}"


def _missing(pair: Comparison) -> str:
    if min(pair.updated_sites) >= MIN_UPDATED_SITES:
        arm, control = pair.effective_sites
        return (
            f"{pair.arm}'s visits tell no more than those to {arm:.1f} sites of equal size would, "
            f"{pair.control}'s than those to {control:.1f}: too few for the error between sites to be "
            "estimated"
        )
    parts = [
        f"{name} has visited {visited} sites again and found an update on {updated} of them"
        for name, visited, updated in zip(
            (pair.arm, pair.control),
            pair.visited_sites,
            pair.updated_sites,
            strict=True,
        )
    ]
    return (
        f"{' and '.join(parts)}; each has to find one on {MIN_UPDATED_SITES} before the error between "
        "sites can be estimated"
    )


def _what_is_needed(pair: Comparison) -> str:
    needed = pair.needed
    if needed is None:
        return ""
    times = f"about {needed.times_sites:,.1f} times as many sites, visited as often"
    if needed.more_visits is None:
        return (
            f"To tell a difference of {_SOUGHT} no number of visits to these sites is enough, as they "
            f"differ too much; {times}, are needed (for a probability of 80 %)."
        )
    if needed.more_visits == 0:
        return (
            f"The visits made suffice to tell a difference of {_SOUGHT} (in 80 % of experiments)."
        )
    return (
        f"To tell a difference of {_SOUGHT} (with a probability of 80 %) about "
        f"{_rounded(needed.more_visits)} more visits are needed, or {times}."
    )


def _rounded(number: int) -> str:
    """Return a number to two digits: it is an estimate."""
    unit = 10 ** max(len(str(number)) - 2, 0)
    return f"{math.ceil(number / unit) * unit:,}"


def _times(ratio: float) -> str:
    return f"{ratio:.2f} times" if math.isfinite(ratio) else "an unknown number of times"


def _per_100(interval: Interval) -> str:
    return " to ".join(f"{100 * end:+.1f}" for end in interval)


def _shown(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"
