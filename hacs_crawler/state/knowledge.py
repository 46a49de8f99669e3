"""What is known of all pages: recording visits into a store, and estimating rates from them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from hacs_crawler.exceptions import StateError, StateUnavailableError
from hacs_crawler.model import DEFAULT_PRIOR, LogNormalPrior, estimate, fit_prior, gaps_between
from hacs_crawler.state.codec import decode_page, encode_page, encode_row
from hacs_crawler.state.page import DAY, Page, Visit, copy_of, merge
from hacs_crawler.state.store import Change, Ids, Rows, Store
from hacs_crawler.urls import page_id

logger = logging.getLogger(__name__)

_TRIES = 100
PAGES_TO_FIT = 5_000
"""How many pages at most the prior is fitted to: its error is far below its spread by then."""


@dataclass(frozen=True, slots=True)
class Estimation:
    """How rates are estimated: estimator name, fading scale in days, and the prior of bayes."""

    estimator: str = "bayes"
    fade_days: float = 365.0
    prior: LogNormalPrior = DEFAULT_PRIOR

    def rates_per_day(self, pages: Sequence[Page]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Return the estimated rate of each page, in 1/day."""
        visit_days, updated, offsets = histories(pages)
        return estimate(
            self.estimator,
            visit_days,
            updated,
            offsets,
            prior=self.prior,
            fade_days=self.fade_days,
        )

    def rate_per_day(self, page: Page) -> float:
        """Return the estimated rate of one page, in 1/day."""
        return float(self.rates_per_day([page])[0])


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a recorded visit brought: the links l*(m_i), and its page before and after."""

    visit: Visit
    new_links: frozenset[int]
    updated: bool
    before: Page
    after: Page


class Knowledge:
    """Records visits into a store and reads from it. Used from one thread at a time."""

    def __init__(self, store: Store, estimation: Estimation) -> None:
        self.store = store
        self.estimation = estimation
        prior = store.read_meta("prior")
        if prior is not None:
            try:
                own = LogNormalPrior(**prior)
            except (TypeError, ValueError) as error:
                msg = f"the note 'prior' in the state is damaged, remove it: {prior!r}"
                raise StateError(msg) from error
            self.estimation = replace(estimation, prior=own)

    def load(self, page_ids: Sequence[int]) -> dict[int, Page]:
        """Return the known ones of these pages, in one round trip; damaged ones are logged."""
        pages: dict[int, Page] = {}
        for key, body in self.store.load(page_ids).items():
            try:
                pages[key] = decode_page(body)
            except StateError as error:
                logger.error("the page with id %d cannot be read: %s", key, error)
        return pages

    def record(
        self, visits: Sequence[Visit], known: Mapping[int, Page] | None = None
    ) -> list[Recorded]:
        """Record visits, of any pages and in any order, and return what each of them brought.

        Each page is written whole or not at all, with its new rate. `known` are pages as the caller
        loaded them. Writing takes one round trip, and a further one for the pages that are in the
        store otherwise than in `known`: they are merged again from what the store has.

        Raises StateUnavailableError where the store cannot be reached; recording the same visits
        again later is safe, whatever part of them was written. Visits of a page whose bytes in the
        store are damaged are left out of the result, and an error is logged that names the page.
        """
        by_page: dict[int, list[int]] = {}
        for index, visit in enumerate(visits):
            by_page.setdefault(page_id(visit.url), []).append(index)
        base = {key: (known or {}).get(key) for key in by_page}
        recorded: dict[int, Recorded] = {}
        for _ in range(_TRIES):
            changes = self._changes(visits, {key: by_page[key] for key in base}, base, recorded)
            present = self.store.write(changes)
            base = {}
            for key, body in present.items():
                try:
                    base[key] = decode_page(body) if body else None
                except StateError as error:
                    indexes = by_page[key]
                    logger.error("page %s cannot be recorded: %s", visits[indexes[0]].url, error)
                    for index in indexes:
                        del recorded[index]
            if not base:
                return [recorded[index] for index in sorted(recorded)]
        msg = (
            f"{len(base)} pages were changed by other processes {_TRIES} times while being written"
        )
        raise StateUnavailableError(msg)

    def rows(self, page_ids: Ids) -> Rows:
        """Return ranking rows (dtype `codec.ROW`), in one round trip a few thousand pages."""
        return self.store.rows(page_ids)

    def urls(self) -> Iterable[str]:
        """Stream the URL of every page known."""
        for ids, _ in self.store.all_rows():
            for page in self.load(ids.tolist()).values():
                yield page.url

    def refit_prior(self) -> LogNormalPrior:
        """Fit the prior to a sample of the store's own pages and keep it there for the next run."""
        ids = self._sample(PAGES_TO_FIT)
        visit_days, updated, offsets = histories(list(self.load(ids).values()))
        gaps = gaps_between(visit_days, updated, offsets, self.estimation.fade_days)
        prior = fit_prior(gaps, DEFAULT_PRIOR)
        self.store.write_meta("prior", asdict(prior))
        return prior

    def _changes(
        self,
        visits: Sequence[Visit],
        by_page: Mapping[int, Sequence[int]],
        base: Mapping[int, Page | None],
        recorded: dict[int, Recorded],
    ) -> list[Change]:
        after: dict[int, Page] = {}
        seen: dict[int, int] = {}
        for key, indexes in by_page.items():
            page = base[key] or Page(url=visits[indexes[0]].url)
            seen[key] = page.version
            for index in sorted(indexes, key=lambda index: visits[index].at):
                before, page = page, copy_of(page)
                recorded[index] = merged(before, page, visits[index])
            page.version = seen[key] + 1
            after[key] = page
        rates = self.estimation.rates_per_day(list(after.values()))
        for page, rate in zip(after.values(), rates.tolist(), strict=True):
            page.rate = rate
        return [
            Change(key, seen[key], encode_page(page), encode_row(page))
            for key, page in after.items()
        ]

    def _sample(self, size: int) -> list[int]:
        """Return ids of up to `size` pages with a gap between visits; ids are hashes, so any do."""
        chosen: list[int] = []
        for ids, rows in self.store.all_rows():
            chosen.extend(ids[rows["visits"] > 1][: size - len(chosen)].tolist())
            if len(chosen) >= size:
                break
        return chosen


def merged(before: Page, page: Page, visit: Visit) -> Recorded:
    """Merge a visit into `page`, a copy of `before`, and say what it brought."""
    new_links = merge(page, visit)
    updated = bool(before.visits) and (bool(new_links) or visit.changed)
    return Recorded(visit, new_links, updated, before, page)


def histories(
    pages: Sequence[Page],
) -> tuple[
    np.ndarray[tuple[int], np.dtype[np.float64]],
    np.ndarray[tuple[int], np.dtype[np.bool_]],
    np.ndarray[tuple[int], np.dtype[np.int64]],
]:
    """Return the pages' visit times in days, whether each found an update, and offsets, flat."""
    visits = [np.frombuffer(page.visits, np.uint32) for page in pages]
    updates = [np.frombuffer(page.update_times, np.uint32) for page in pages]
    offsets = np.zeros(len(pages) + 1, np.int64)
    np.cumsum([len(times) for times in visits], out=offsets[1:])
    seconds = np.concatenate(visits) if visits else np.zeros(0, np.uint32)
    updated = np.zeros(len(seconds), np.bool_)
    for start, end, times, found in zip(offsets, offsets[1:], visits, updates, strict=False):
        places = np.searchsorted(times, found)
        updated[start + places[places < end - start]] = True
    updated[offsets[:-1][np.diff(offsets) > 0]] = False
    return seconds / DAY, updated, offsets
