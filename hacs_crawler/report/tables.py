"""Tables of the report: what each column is called, how it is written, and what it says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from hacs_crawler.experiment.answer import ExperimentAnswer
from hacs_crawler.experiment.text import ROWS
from hacs_crawler.ranking.calibration import Group
from hacs_crawler.state import State, trusted_sources


class Column(NamedTuple):
    """A column; `words` say what its values are.

    `kind` says how they are written: "text", "number", "p", "share", "days", "bytes", "things" (texts),
    "page" (a place in the list of pages), "every" (a rate a day), "time" and "ago" (seconds since 1970).
    """

    title: str
    kind: str
    values: Sequence[Any]
    words: str


Table = list[Column]


def runs_table(found: Mapping[str, list[Any]]) -> Table:
    """Return what each run found, a row for each arm, the latest first."""
    runs = {name: values[::-1] for name, values in found.items()}
    known = zip(runs["updates"], runs["visits"], runs["firsts"], strict=True)
    per_100 = [
        round(100 * n / (all_ - firsts), 1) if all_ > firsts else None for n, all_, firsts in known
    ]
    return [
        Column("Start, UTC", "time", runs["at"], "When the run began"),
        Column("Ranked by", "text", runs["name"], "The policy, or the arm of an experiment"),
        Column("Visits", "number", runs["visits"], "Visits of start requests that HACS ranked"),
        Column("First", "number", runs["firsts"], "Visits that saw a page for the first time"),
        Column("Unseen", "number", runs["unseen"], "Visits that brought no page: errors, gone"),
        Column("Updates", "number", runs["updates"], "Visits that found an update"),
        Column(
            "New to the site", "number", runs["siteUpdates"], "That no other page of it had shown"
        ),
        Column("Predicted", "number", runs["predicted"], "How many updates were to be expected"),
        Column(
            "Per 100 visits", "number", per_100, "Updates per 100 visits, first visits left out"
        ),
        Column("New links", "number", runs["links"], "That no visit of the page had shown before"),
        Column("Size", "bytes", runs["bytes"], "Of the answers"),
    ]


def experiment_table(answer: ExperimentAnswer) -> Table:
    """Return the arms of an experiment side by side, as `hacs experiment status` has them."""
    arms = [
        Column(arm.arm, "text", [text(arm) for text in ROWS.values()], "What the arm has found")
        for arm in answer.arms
    ]
    return [Column("Of each arm", "text", list(ROWS), "What is counted"), *arms]


def calibration_table(some: Iterable[Group]) -> Table:
    """Return how right the predictions of each policy were."""
    groups = [(group, group.score()) for group in some]

    def scored(title: str, name: str, words: str) -> Column:
        return Column(title, "number", [short(getattr(score, name)) for _, score in groups], words)

    return [
        Column("Policy", "text", [group.policy for group, _ in groups], "What ranked the visits"),
        Column("Settings", "text", [group.model for group, _ in groups], "What p was made of"),
        scored("Visits", "visits", "Of pages that had been seen before"),
        scored("Predicted", "expected_updates", "Updates to be expected: the sum of p"),
        scored("Found", "found_updates", "Visits that found an update"),
        scored("Brier", "brier", "Mean square of p minus what was found, 0 or 1; lower is better"),
        scored("Brier, same p", "base_brier", "The same, had all visits been given one p"),
        scored(
            "Log loss", "log_loss", "Mean -ln of the chance given to what came; lower is better"
        ),
        scored("Log loss, same p", "base_log_loss", "The same, had all visits been given one p"),
    ]


def signals_table(state: State, limit: int) -> Table:
    """Return how far each source of signals is trusted."""
    sources = trusted_sources(state.store, limit)
    trusts = [row.trust for row in sources]
    late, false = [row.delay_days for row in trusts], [row.false_per_day for row in trusts]
    hosts = [row.origin.partition("://")[2] for row in sources]
    return [
        Column("Host", "text", hosts, "Where the source is"),
        Column("Kind", "text", [row.kind for row in sources], "A sitemap, a feed, or pings"),
        Column("Read", "ago", [row.read for row in sources], "When it was last read"),
        Column("Pages", "number", [row.pages for row in sources], "Visited pages that it lists"),
        Column("Visits", "number", [round(row.gaps) for row in sources], "That trust rests on"),
        Column("Signalled", "share", [short(row.recall) for row in trusts], "Share of the updates"),
        Column("False a day", "number", list(map(short, false)), "Without an update, of each page"),
        Column("Late", "days", list(map(short, late)), "Mean delay of a true signal"),
    ]


def short(value: float | None) -> float | None:
    """Return a number with three significant digits."""
    return None if value is None else float(f"{value:.3g}")
