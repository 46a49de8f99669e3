"""A state opened for reading: pages, visits, outcome records and the plan, as tables."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from scrapy.utils.project import get_project_settings

from hacs_crawler.analysis.tables import Table, table, times
from hacs_crawler.config import Config, unknown_settings
from hacs_crawler.exceptions import ConfigError, HacsError, StateError
from hacs_crawler.links import site_id
from hacs_crawler.ranking.finalists import urls_of
from hacs_crawler.ranking.plan import Plan
from hacs_crawler.ranking.policies import Floats
from hacs_crawler.shards import found_shards, open_shards, plan_of_all
from hacs_crawler.state import (
    SEEN,
    UPDATED,
    VISITS_OF_A_RATE,
    Page,
    State,
    as_of,
    churn_of,
    describe,
    open_state,
    sqlite_path,
)

_PAGE: Final[dict[str, Callable[[Page], Any]]] = {
    "url": lambda page: page.url,
    "site": lambda page: site_id(page.url),
    "visits": lambda page: len(page.visits),
    "updates": lambda page: len(page.update_times),
    "first_visit": lambda page: page.visits[0] if page.visits else 0,
    "last_visit": lambda page: page.last_visit,
    "last_update": lambda page: page.last_update,
    "rate_per_day": lambda page: page.rate,
    "churn": lambda page: page.churn,
    "links": lambda page: len({*page.spells.marks}),
    "failures": lambda page: page.failures,
    "gone": lambda page: page.gone,
    "not_before": lambda page: page.not_before,
}
_TIMES: Final = ("first_visit", "last_visit", "last_update", "not_before", "at", "run")


class StateReader:
    """A read-only view of a state; made by `open`.

    Each method reads the state again, so tables include the latest visits of a running crawl. Use
    the reader as a context, or `close` it.
    """

    def __init__(self, config: Config, state: State) -> None:
        self.config = config
        self.state = state

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Return the number of known pages."""
        return self.state.store.count()

    def close(self) -> None:
        """Release the file or the connection."""
        self.state.close()

    def pages(self) -> Table:
        """Return a row for each page with a visit or attempt; raises StateError.

        `site` is a number shared by the pages of a site, `rate_per_day` the latest estimate,
        `links` the number of stored links. `failures` and `gone` count failed attempts and answers
        404 or 410 since the last visit; `not_before` is when a crawl may request a gone page again.
        """
        columns: dict[str, list[Any]] = {name: [] for name in _PAGE}
        for page in self._pages():
            for name, value in _PAGE.items():
                columns[name].append(value(page))
        return _timed(columns)

    def visits(self) -> Table:
        """Return a row for each stored visit, page by page and in time order; raises StateError.

        `is_first` marks baselines, which find nothing; `is_new_to_site`, updates with links that no
        other page of the site had shown.
        """
        return visits_table(self._pages())

    def outcomes(self) -> Table:
        """Return a row for each ranked visit: the prediction and the outcome; raises StateError.

        `run` is when the crawl began, `p` the predicted probability, `churn` the chance that a
        request shows new links by itself. `url` is None if the page is unknown.
        """
        outcomes = self.state.outcomes()
        labels = self.state.labels_of(outcomes)
        page_ids, places = np.unique(outcomes["page_id"], return_inverse=True)
        urls = urls_of(page_ids, self.state)
        known_labels = [labels.get(number) for number in outcomes["label"].tolist()]
        return table(
            {
                "url": [urls[place] or None for place in places.tolist()],
                "site": outcomes["site"].astype(np.int64),
                "at": times(outcomes["at"].tolist()),
                "run": times(outcomes["run"].tolist()),
                "policy": [label.policy if label else None for label in known_labels],
                "estimator": [label.estimator if label else None for label in known_labels],
                "p": outcomes["p"].astype(np.float64),
                "churn": churn_of(outcomes),
                "days_since_visit": _finite(outcomes["days_since_visit"]),
                "is_seen": (outcomes["flags"] & SEEN) > 0,
                "is_update": (outcomes["flags"] & UPDATED) > 0,
                "new_links": outcomes["new_links"].astype(np.int64),
                "new_to_site": outcomes["new_to_site"].astype(np.int64),
                "bytes": outcomes["bytes"].astype(np.int64),
            },
            texts=("url", "policy", "estimator"),
        )

    def plan(self, limit: int | None = None, at: datetime | None = None) -> Table:
        """Return the pages that a crawl of all known pages would visit, best first; raises StateError.

        `at` is the time of the crawl, now if None, UTC if it lacks a zone. See `plan_table` for the
        columns.
        """
        if limit is not None and limit < 1:
            raise HacsError(f"limit = {limit}: must be a whole number of at least 1")
        at = at if at is None or at.tzinfo else at.replace(tzinfo=UTC)
        now = self.config.clock() if at is None else at.timestamp()
        plan = plan_of_all(self.state, self.config.ranking, now, limit)
        return plan_table(plan, self.state)

    def _pages(self) -> Iterator[Page]:
        now = self.config.clock()
        return (as_of(page, now).sound for page in self.state.pages() if page is not None)


def plan_table(plan: Plan, state: State) -> Table:
    """Return the pages of a plan with the numbers that ranked them, best first.

    Damaged pages are left out. `days_since_visit` and `days_since_update` may be nan.
    `rate_is_prior` marks pages with too few visits for a rate of their own; `overdue`, pages whose
    last visit is longer ago than HACS_EVERY allows. `weight` is from HACS_WEIGHTS.
    """
    urls = urls_of(plan.page_ids, state)
    is_known = np.array(urls, object) != ""
    whole = table(
        {
            "rank": np.arange(1, len(plan) + 1),
            "url": urls,
            "p": plan.p,
            "rate_per_day": plan.rate_per_day,
            "rate_is_prior": plan.visits < VISITS_OF_A_RATE,
            "days_since_visit": _finite(plan.days_since_visit),
            "days_since_update": _finite(plan.days_since_update),
            "visits": plan.visits.astype(np.int64),
            "updates": plan.updates.astype(np.int64),
            "failures": plan.failures.astype(np.int64),
            "weight": plan.weight,
            "is_overdue": plan.is_overdue,
        },
        texts=("url",),
    )
    return Table({name: column[is_known] for name, column in whole.columns.items()})


def visits_table(pages: Iterable[Page]) -> Table:
    """Return a row for each stored visit of the pages, see `StateReader.visits`."""
    names = ("url", "at", "is_first", "is_update", "is_new_to_site", "new_links")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for page in pages:
        updates, echoes = set(page.update_times), set(page.echoes)
        columns["url"] += [page.url] * len(page.visits)
        columns["at"] += page.visits
        columns["is_first"] += [number == 0 for number in range(len(page.visits))]
        columns["is_update"] += [at in updates for at in page.visits]
        columns["is_new_to_site"] += [at in updates - echoes for at in page.visits]
        columns["new_links"] += page.new_marks_by_visit()
    return _timed(columns)


def open_existing(config: Config, *, writes: bool = False, creates: bool = False) -> State:
    """Open the state that the settings name, read-only by default; `close` it when done.

    All existing shards are read as one state if `config.shards` is set and no shard is, or if
    neither is and only shards have pages. Raises HacsError if there is no state, unless the caller
    `creates` it, and StateError if it cannot be used.
    """
    path = sqlite_path(config.state, config.base)
    if path is not None and not creates and not (path.exists() and path.stat().st_size):
        folder = " and the folder, which is in no Scrapy project"
        check = "check HACS_STATE" + folder * (not (config.base / "scrapy.cfg").exists())
        raise HacsError(f"there is no state at {path}: {check}; a crawl or `hacs import` makes it")
    reads_only = not (writes or creates)
    if config.shards is None and config.shard is None:
        counts = found_shards(config)
        if len(counts) > 1:
            numbers, address = " and ".join(map(str, counts)), path or describe(config.state)
            raise StateError(f"{address} has shards of {numbers}: name one with --shards")
        config = replace(config, shards=counts[0] if counts else None)
    if config.shards is None or config.shard is not None:
        return open_state(*config.state_arguments, reads_only=reads_only, creates=creates)
    joined = open_shards(config, config.shards, reads_only=reads_only, creates=creates)
    if joined is None:
        raise HacsError(f"{describe(config.state)} has no state of any of {config.shards} shards")
    return joined


def open(state: str | None = None, **settings: object) -> StateReader:  # noqa: A001 - as in hacs.open
    """Open a state for reading: the address of HACS_STATE, or the Scrapy project's if None.

    Keywords are settings: `budget=20` is HACS_BUDGET = 20. A relative path starts at the project's
    folder, else at the working folder. Raises ConfigError for an unknown setting or an unusable value,
    HacsError if the state does not exist, StateError if it cannot be read.
    """
    given = {f"HACS_{name.upper()}": value for name, value in settings.items()}
    project = get_project_settings()
    project.setdict({"HACS_STATE": state, **given} if state else given, priority="cmdline")
    for name, similar in unknown_settings(project).items():
        if name in given:
            hint = f"; did you mean {_keyword(similar)}?" if similar else ""
            raise ConfigError(f"{_keyword(name)} is not a setting of hacs-crawler{hint}")
    config = Config.from_settings(project)
    return StateReader(config, open_existing(config))


def rank(state: str | None = None, limit: int | None = None, **settings: object) -> Table:
    """Return the pages that a crawl of all known pages would visit now, best first, as `hacs rank`.

    See `open` for `state`, settings and errors, and `StateReader.plan` for the table.
    """
    with open(state, **settings) as opened:
        return opened.plan(limit)


def _keyword(name: str) -> str:
    return name.removeprefix("HACS_").lower()


def _timed(columns: dict[str, list[Any]]) -> Table:
    kinds = {name: times(values) if name in _TIMES else values for name, values in columns.items()}
    return table(kinds, texts=("url",))


def _finite(days: NDArray[np.floating]) -> Floats:
    """Return days as 64-bit floats, nan instead of infinite."""
    return np.where(np.isfinite(days), days, np.nan).astype(np.float64)
