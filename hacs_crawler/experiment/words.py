"""The answer of an experiment in words."""

import math
from collections.abc import Iterator
from typing import Final

from hacs_crawler.experiment.answer import LEAST_SITES, Answer
from hacs_crawler.utils.times import DAY, day_text

# Without a history, policies that learn know little for this long.
EARLY_DAYS: Final = 60


def paragraph(answer: Answer) -> str:
    """Return the answer in one paragraph."""
    return " ".join(_sentences(answer))


def _sentences(answer: Answer) -> Iterator[str]:
    mine, other = answer.one, answer.other
    span = f"from {day_text(answer.first)} to {day_text(answer.last)}"
    made = (
        f"each made {mine.visits:,} visits"
        if mine.visits == other.visits
        else f"made {mine.visits:,} and {other.visits:,} visits"
    )
    yield (
        f"{mine.name} and {other.name} {made} to the same {answer.pages:,} pages of "
        f"{answer.sites:,} sites {span}, pages' first visits left out."
    )
    if answer.verdict == "too early":
        yield (
            f"Too early to compare them: {mine.name} has found updates on {answer.updated_sites[0]} "
            f"sites and {other.name} on {answer.updated_sites[1]}, and each has to on {LEAST_SITES}."
        )
        return
    yield (
        f"{mine.name} found {mine.updates:,.0f} updates, {other.name} {other.updates:,.0f}: "
        f"{answer.ratio:.2f} times as many{' per visit' * (mine.visits != other.visits)}."
    )
    interval = f"above {answer.low:.2f} times"
    if math.isfinite(answer.high) and answer.high < 1000:
        interval = f"between {answer.low:.2f} and {answer.high:.2f} times"
    elif not answer.low >= 0.005:
        interval = "anything: nothing can be said yet"
    yield (
        f"With {100 * (1 - answer.alpha):.3g} % confidence, however often one looks, it is on sites "
        f"like these {interval}."
    )
    if answer.since is None:
        yield "So it cannot be said yet which of the two finds more, nor that they are equal."
    else:
        yield f"So {mine.name} finds {answer.verdict}; it could be said since {day_text(answer.since)}."
    first, days = mine if answer.sooner_days >= 0 else other, abs(answer.sooner_days)
    sooner = "equally soon" if days < 0.05 else f"by {first.name} {days:.1f} days sooner"
    yield (
        f"{answer.both:,} updates were found by both, {sooner} on average; {answer.only_one:,} by "
        f"{mine.name} only and {answer.only_other:,} by {other.name} only."
    )
    yield f"{mine.name} visited {mine.pages:,} of the pages, {other.name} {other.pages:,}."
    yield "Each had half of the visits; with all of them the ratio may differ somewhat."
    if not answer.has_past and answer.last - answer.first < EARLY_DAYS * DAY:
        yield (
            "Little was known about the pages before, so in the first 60 days the ratio is near 1, "
            "regardless of the policies. Read the pages' history from archives "
            "(`scrapy crawl wayback`), and start again."
        )
