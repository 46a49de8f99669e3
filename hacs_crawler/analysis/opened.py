"""A state opened for reading: its pages, their visits, the outcome records, and the plan, as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, Self

import numpy as np
from scrapy.utils.project import get_project_settings

from hacs_crawler.analysis.plan import finite, plan_table
from hacs_crawler.analysis.tables import Table, table, times
from hacs_crawler.config import Config, unknown_settings
from hacs_crawler.exceptions import ConfigError, HacsError, NoStateError
from hacs_crawler.links import site_id
from hacs_crawler.ranking.shard_rounds import plan_of_all
from hacs_crawler.state import (
    PAGES_A_CALL,
    SEEN,
    UPDATED,
    JoinedState,
    Page,
    State,
    StateArguments,
    as_of,
    churn_of,
    describe,
    open_state,
    shards_of,
    sqlite_path,
    states_in,
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
    "links": lambda page: len(page.marks),
    "failures": lambda page: page.failures,
    "gone": lambda page: page.gone,
    "not_before": lambda page: page.not_before,
}
_TIMES: Final = ("first_visit", "last_visit", "last_update", "not_before", "at", "run")


class StateReader:
    """A state that is read; made by `open`. Nothing in it is changed.

    What later visits of a crawl bring is in the next table that is asked for. Use it as a context, or
    `close` it.
    """

    def __init__(self, config: Config, state: State) -> None:
        self.config = config
        self.state = state

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Return how many pages the state knows."""
        return self.state.store.count()

    def close(self) -> None:
        """Release the file or the connection."""
        self.state.close()

    def pages(self) -> Table:
        """Return a row for each page that was visited or tried; raises StateError.

        `site` is a number that pages of one site share, `rate_per_day` as last estimated, `links` how
        many links are kept, `failures` the attempts since the last visit that told nothing, `gone` how
        often 404 or 410 answered since, `not_before` when a crawl may ask such a page again.
        """
        columns: dict[str, list[Any]] = {name: [] for name in _PAGE}
        for page in self._pages():
            for name, value in _PAGE.items():
                columns[name].append(value(page))
        return _timed(columns)

    def visits(self) -> Table:
        """Return a row for each visit that is kept, page by page and in time order; raises StateError.

        `is_first` visits are baselines, which find nothing. `is_new_to_site` says that an update had
        links which no other page of the site was known to show.
        """
        return visits_table(self._pages())

    def outcomes(self) -> Table:
        """Return a row for each ranked visit: what was predicted, and what it found; raises StateError.

        `run` is when its crawl began, `p` what was predicted,
        `churn` the chance that a request shows new links by itself. `url` is None where the page is not
        known any more, `arm` without an experiment.
        """
        found = self.state.outcomes()
        labels = self.state.labels_of(found)
        urls = dict(self._urls(np.unique(found["page_id"]).tolist()))
        known = [labels.get(number) for number in found["label"].tolist()]
        return table(
            {
                "url": [urls.get(page_id) for page_id in found["page_id"].tolist()],
                "site": found["site"].astype(np.int64),
                "at": times(found["at"].tolist()),
                "run": times(found["run"].tolist()),
                "arm": [label.arm or None if label else None for label in known],
                "policy": [label.policy if label else None for label in known],
                "estimator": [label.estimator if label else None for label in known],
                "p": found["p"].astype(np.float64),
                "churn": churn_of(found),
                "days_since_visit": finite(found["days_since_visit"]),
                "is_seen": (found["flags"] & SEEN) > 0,
                "is_update": (found["flags"] & UPDATED) > 0,
                "new_links": found["new_links"].astype(np.int64),
                "new_to_site": found["new_to_site"].astype(np.int64),
                "bytes": found["bytes"].astype(np.int64),
            },
            texts=("url", "arm", "policy", "estimator"),
        )

    def plan(self, limit: int | None = None, at: datetime | None = None) -> Table:
        """Return what a crawl of all known pages would visit, best first; raises StateError.

        `at` is the moment, now if None; one without a zone is UTC. See `plan_table` for the columns.
        """
        if limit is not None and limit < 1:
            raise HacsError(f"limit = {limit}: allowed is a whole number of at least 1")
        now = self.config.clock() if at is None else _second(at)
        plan = plan_of_all(self.state, self.config.ranking, now, limit)
        return plan_table(plan, *states_in(self.state))

    def _pages(self) -> Iterator[Page]:
        now = self.config.clock()
        return (as_of(page, now) for page in self.state.pages() if page is not None)

    def _urls(self, page_ids: list[int]) -> Iterator[tuple[int, str]]:
        for start in range(0, len(page_ids), PAGES_A_CALL):
            found = self.state.load(page_ids[start : start + PAGES_A_CALL])
            yield from ((page_id, page.url) for page_id, page in found.items())


def visits_table(pages: Iterable[Page]) -> Table:
    """Return a row for each visit that is kept of some pages, see `StateReader.visits`."""
    names = ("url", "at", "is_first", "is_update", "is_new_to_site", "new_links")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for page in pages:
        updates, echoes = set(page.update_times), set(page.echoes)
        columns["url"] += [page.url] * len(page.visits)
        columns["at"] += page.visits
        columns["is_first"] += [place == 0 for place in range(len(page.visits))]
        columns["is_update"] += [at in updates for at in page.visits]
        columns["is_new_to_site"] += [at in updates - echoes for at in page.visits]
        columns["new_links"] += page.new_marks_by_visit()
    return _timed(columns)


def open_existing(config: Config, *, writes: bool = False, creates: bool = False) -> State:
    """Open the state that the settings name, for reading unless told otherwise; `close` it when done.

    Where they name no shard but how many there are, all that exist are read as one. A file that does
    not exist is an error (HacsError), unless the caller `creates` it. Raises StateError where it
    cannot be used.
    """
    path = sqlite_path(config.state, config.base)
    if path is not None and not creates and not (path.exists() and path.stat().st_size):
        msg = f"there is no state at {path}: HACS_STATE names it, a crawl or `hacs import` makes it"
        raise HacsError(msg)
    reads_only = not (writes or creates)
    if config.shards is None or config.shard is not None:
        return open_state(*config.state_arguments, reads_only=reads_only)
    places = ((one, replace(config, shard=one).state_arguments) for one in shards_of(config.shards))
    exist = {shard: place for shard, place in places if creates or _is_there(place)}
    if not exist:
        msg = f"there is no state of any of {config.shards} shards in {describe(config.state)}"
        raise HacsError(msg)
    with ExitStack() as stack:
        states = []
        for place in exist.values():
            states.append(open_state(*place, reads_only=reads_only))
            stack.callback(states[-1].close)
        joined = JoinedState(states, list(exist), list(exist.values()))
        stack.pop_all()
    return joined


def _is_there(arguments: StateArguments) -> bool:
    """Whether there is a state; a server's namespace that is not there is read as an empty one."""
    try:
        open_state(*arguments, reads_only=True).close()
    except NoStateError:
        return False
    return True


def open(state: str | None = None, **settings: object) -> StateReader:  # noqa: A001 - as in hacs.open
    """Open a state for reading: the address of HACS_STATE, or the Scrapy project's if None.

    Keywords are settings: `budget=20` is HACS_BUDGET = 20. A relative path starts at the project's
    folder, else at the working folder. Raises ConfigError for a setting that is none or has no usable
    value, HacsError where there is no such state, StateError where it cannot be read.
    """
    given = {f"HACS_{name.upper()}": value for name, value in settings.items()}
    found = get_project_settings()
    found.setdict({"HACS_STATE": state, **given} if state else given, priority="cmdline")
    for name, similar in unknown_settings(found).items():
        if name in given:
            hint = f"; did you mean {_keyword(similar)}?" if similar else ""
            raise ConfigError(f"{_keyword(name)} is not a setting of hacs-crawler{hint}")
    config = Config.from_settings(found)
    return StateReader(config, open_existing(config))


def rank(state: str | None = None, limit: int | None = None, **settings: object) -> Table:
    """Return what a crawl of all pages that a state knows would visit now, best first.

    As `hacs rank`: see `open` for `state`, settings and errors, `StateReader.plan` for the table.
    """
    with open(state, **settings) as opened:
        return opened.plan(limit)


def _keyword(name: str) -> str:
    return name.removeprefix("HACS_").lower()


def _second(at: datetime) -> float:
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _timed(columns: dict[str, list[Any]]) -> Table:
    kinds = {name: times(values) if name in _TIMES else values for name, values in columns.items()}
    return table(kinds, texts=("url",))
