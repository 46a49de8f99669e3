"""Recording visits into a store, and estimating rates from them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import asdict, dataclass
from functools import partial

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from hacs_crawler.exceptions import StateError, StateUnavailableError
from hacs_crawler.links import page_id_of
from hacs_crawler.state import site_links
from hacs_crawler.state.codec import decode_page, decode_pages, encode_page
from hacs_crawler.state.estimation import Estimation, is_same_estimate
from hacs_crawler.state.merging import merge_pages
from hacs_crawler.state.outcome_log import (
    MOST_OUTCOMES,
    PASSED_OVER,
    Label,
    Outcomes,
    sorted_outcomes,
    sound,
)
from hacs_crawler.state.page import Page, Visit
from hacs_crawler.state.priors import read_priors, refit_priors
from hacs_crawler.state.recorded import Recorded, merged, on_their_sites, outcome_record, still_hold
from hacs_crawler.state.rows import encode_row
from hacs_crawler.state.site_links import LinkClaim, claim_links
from hacs_crawler.state.store import TRIES, Change, Ids, Rows, Store, change_annotations
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

PAGES_A_CALL = 1_000
_Base = Mapping[int, Page | None]


@dataclass(frozen=True, slots=True)
class Restored:
    """How many pages were new to the store, were changed, or could not be merged as they are damaged."""

    added: int
    changed: int
    damaged: int


class State:
    """Records visits into a store and reads from it. Used from one thread at a time."""

    def __init__(self, store: Store, estimation: Estimation) -> None:
        self.store = store
        self.estimation = estimation
        self.read_prior()

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def read_prior(self) -> None:
        """Use the priors in the store from now on."""
        with self.store.hold_notes():
            self.estimation = read_priors(self.store, self.estimation)

    def load(self, page_ids: Sequence[int]) -> dict[int, Page]:
        """Return those of the pages that are known, in one round trip; damaged pages are logged."""
        return decode_pages(self.store.load(page_ids))

    def site_links(self, sites: Sequence[int]) -> dict[int, bytes]:
        """Return the sites' link memories (see `state.site_links`), in one round trip."""
        return self.store.annotations(site_links.KIND, sites)

    def claim(self, claims: Sequence[LinkClaim]) -> list[NDArray[np.bool_]]:
        """Claim links for pages; see `site_links.claim_links`."""
        return claim_links(claims, partial(change_annotations, self.store, site_links.KIND))

    def record(
        self,
        visits: Sequence[Visit],
        held: Mapping[int, Page] | None = None,
        merges: Sequence[Recorded] = (),
    ) -> list[Recorded]:
        """Record visits, of any pages and in any order, and return their outcomes.

        Each page is written whole or not at all, with its new rate. `held` are pages that the caller
        has loaded, and `merges` the outcomes of merging the visits with them: only pages that differ in
        the store are merged again. Writing takes one round trip, another one if any page in the store
        differs from `held`, and two more if sites count and links are new (see `state.site_links`).

        Raises StateUnavailableError if the store cannot be reached; recording the same visits
        again later is safe, even if some of them were written. Visits of a page whose bytes in the
        store are damaged are left out of the result, and an error is logged that names the page.
        """
        by_page: dict[int, list[int]] = {}
        for index, visit in enumerate(visits):
            by_page.setdefault(page_id_of(visit.url), []).append(index)
        recorded: dict[int, Recorded] = {}
        # only the store knows what is new to a site: outcomes merged by the caller do not do
        counts_sites = self.estimation.updates == "site"

        def advance(base: _Base) -> dict[int, Page]:
            after: dict[int, Page] = {}
            for page_id, present in base.items():
                ours = [merges[index] for index in by_page[page_id]] if merges else []
                if ours and not counts_sites and still_hold(ours, present):
                    recorded.update(zip(by_page[page_id], ours, strict=True))
                    after[page_id] = ours[-1].after
                    continue
                page = present or Page(url=visits[by_page[page_id][0]].url)
                # In time order: a link that two visits show is new at the earlier one.
                for index in sorted(by_page[page_id], key=lambda index: visits[index].at):
                    recorded[index] = merged(page, visits[index], self.estimation.updates)
                    page = recorded[index].after
                after[page_id] = page
            if counts_sites:
                by_time = [sorted(by_page[id_], key=lambda i: visits[i].at) for id_ in base]
                # a crawl's visits claim marks in the order in which it judged them
                is_judged = bool(merges) and not any(visit.harvest for visit in visits)
                places = {
                    index: place if is_judged else visits[index].at
                    for indexes in by_time
                    for place, index in zip(sorted(indexes), indexes, strict=True)
                }
                order = sorted(places, key=places.__getitem__)
                on_sites = on_their_sites([recorded[index] for index in order], self.claim)
                recorded.update(zip(order, on_sites, strict=True))
            self.estimation.estimate([*after.values()])
            return after

        def outcomes(page_id: int) -> bytes:
            return b"".join(
                outcome_record(recorded[index], self.estimation.updates)
                for index in by_page[page_id]
            )

        base = {page_id: (held or {}).get(page_id) for page_id in by_page}
        for page_id in self._write(base, advance, outcomes):
            for index in by_page[page_id]:
                del recorded[index]
        return [recorded[index] for index in sorted(recorded)]

    def restore(self, pages: Iterable[Page]) -> Restored:
        """Merge pages of another state, or of this state at another time, into the store.

        New and changed pages are estimated with this state's prior; the others stay as they are. Takes
        one round trip, and another one if the store knows any of the pages. Raises like `record`.
        """
        given: dict[int, Page] = {}
        for page in pages:
            page_id = page_id_of(page.url)
            first = given.get(page_id)
            given[page_id] = page if first is None else merge_pages(first, page)
        is_new: dict[int, bool] = {}  # of the pages that were written

        def advance(base: _Base) -> dict[int, Page]:
            after: dict[int, Page] = {}
            for page_id, present in base.items():
                page = (
                    copy(given[page_id])
                    if present is None
                    else merge_pages(present, given[page_id])
                )
                is_new.pop(page_id, None)
                if page != present:
                    after[page_id], is_new[page_id] = page, present is None
            self.estimation.estimate([*after.values()])
            return after

        damaged = self._write(dict.fromkeys(given), advance)
        written = [is_new[page_id] for page_id in is_new.keys() - damaged]
        return Restored(sum(written), written.count(False), len(damaged))

    def reestimate(self, page_ids: Sequence[int]) -> tuple[int, int]:
        """Estimate the rates of pages again; writes only pages whose rate changes.

        Returns how many rates changed, and how many pages are damaged. Raises like `record`.
        """
        pages = self.load(page_ids)
        changed: set[int] = set()

        def advance(base: _Base) -> dict[int, Page]:
            changed.difference_update(base)
            after = {page_id: replace(page) for page_id, page in base.items() if page is not None}
            self.estimation.estimate([*after.values()])
            for page_id in list(after):
                if is_same_estimate(after[page_id], base[page_id]):
                    del after[page_id]
            changed.update(after)
            return after

        damaged = self._write(pages, advance)
        return len(changed - damaged), len(page_ids) - len(pages) + len(damaged)

    def rows(self, page_ids: Ids) -> Rows:
        """Return ranking rows (dtype `rows.ROW`), in one round trip for every few thousand pages."""
        return self.store.rows(page_ids)

    def visited_since(self, began: int, among: Ids | None = None) -> tuple[frozenset[int], int]:
        """Return the ids of pages, all or `among` some, visited since a second, and how many changed."""
        ids, updates = set[int](), 0
        store = self.store
        for page_ids, rows in store.all_rows() if among is None else [(among, store.rows(among))]:
            ids.update(page_ids[rows["last_visit"] >= began].tolist())
            is_updated = (rows["last_update"] >= began) & (rows["updates"] > 0)
            updates += int(np.count_nonzero(is_updated))
        return frozenset(ids), updates

    def pages(self) -> Iterator[Page | None]:
        """Stream all known pages, None for each damaged page (which is logged)."""
        for ids, _ in self.store.all_rows():
            for start in range(0, len(ids), PAGES_A_CALL):
                batch = ids[start : start + PAGES_A_CALL].tolist()
                pages = self.load(batch)
                yield from map(pages.get, batch)

    def urls(self) -> Iterator[str]:
        """Stream the URLs of all known pages."""
        return (page.url for page in self.pages() if page is not None)

    def outcomes(self) -> Outcomes:
        """Return the outcome records by time, each visit once."""
        outcomes = sorted_outcomes(self.store.outcomes())
        is_sound = sound(outcomes)
        if not is_sound.all():
            logger.error(PASSED_OVER, np.count_nonzero(~is_sound), "the state")
            outcomes = outcomes[is_sound]
        return outcomes

    def bound_outcomes(self, most: int = MOST_OUTCOMES) -> Outcomes:
        """Delete the oldest outcome records if there are 10 % more than `most`; return the others."""
        outcomes = self.outcomes()
        # Deleting rewrites all the remaining records: not worth it after each crawl.
        if len(outcomes) <= 1.1 * most:
            return outcomes
        first = int(outcomes["at"][-most])
        self.store.trim_outcomes(first)
        return outcomes[outcomes["at"] >= first]

    def label(self, number: int) -> Label | None:
        """Return the label with that number, None if it is not known."""
        fields = self.store.read_meta(f"label/{number}")
        if fields is None:
            return None
        with suppress(msgspec.ValidationError, OverflowError, RecursionError):
            label = msgspec.convert(fields, Label)
            if fields.keys() == asdict(label).keys():
                return label
        logger.warning(
            "the note 'label/%d' in the state is damaged, or of a newer version: the outcome records "
            "that refer to it are skipped",
            number,
        )
        return None

    def labels_of(self, outcomes: Outcomes) -> dict[int, Label]:
        """Return the known labels of outcome records, by number."""
        labels = {int(number): self.label(int(number)) for number in np.unique(outcomes["label"])}
        return {number: label for number, label in labels.items() if label is not None}

    def keep_label(self, label: Label) -> None:
        """Keep a label, so that outcome records can refer to it by number."""
        self.store.write_meta({f"label/{label.number}": asdict(label)})

    def refit_prior(self) -> int:
        """Fit the priors (see `state.priors`), use them from now on, and return the sample's size."""
        self.read_prior()
        fitted = refit_priors(self.store, self.load, self.estimation)
        self.read_prior()
        return fitted

    def _write(
        self,
        base: _Base,
        advance: Callable[[_Base], dict[int, Page]],
        outcomes: Callable[[int], bytes] = lambda _: b"",
    ) -> set[int]:
        """Write the pages that `advance` makes of the pages in `base` (None: unknown), by id.

        If the store has another version of a page, `advance` is called again with that version.
        `outcomes` returns the outcome records that are written with a page. Returns the ids of the pages
        that could not be written because their bytes in the store are damaged; each is logged.
        """
        damaged: set[int] = set()
        for _ in range(TRIES):
            after = advance(base)
            if not after:
                return damaged
            changes = (
                (page_id, base[page_id], page, outcomes(page_id)) for page_id, page in after.items()
            )
            present = self.store.write([_change(*change) for change in changes])
            base, refused = {}, base
            lost = 0
            for page_id, body in present.items():
                try:
                    page = decode_page(body) if body else None
                    base[page_id], is_lost = _with_acknowledged(page, refused[page_id])
                    lost += is_lost
                except StateError as error:
                    damaged.add(page_id)
                    logger.error("page %s cannot be recorded: %s", after[page_id].url, error)
            if lost:
                logger.error(
                    "The state has lost visits of %s, as in a failover; those known here are written "
                    "back",
                    counted(lost, "page"),
                )
            if not base:
                return damaged
        msg = f"{len(base)} pages were changed by other processes {TRIES} times while being written"
        raise StateUnavailableError(msg)


def _with_acknowledged(page: Page | None, ours: Page | None) -> tuple[Page | None, bool]:
    """Return a page that differs in the store, merged with ours if the store lost a write, and if so.

    A page's version only grows, so a store with an older version, or none, has lost a write.
    """
    seen = 0 if ours is None else ours.version
    version = 0 if page is None else page.version
    if version > seen:
        return page, False
    if ours is None or version == seen:
        raise StateError("its stored version differs from the version in its bytes")
    return (replace(ours, version=0) if page is None else merge_pages(page, ours)), True


def _change(page_id: int, before: Page | None, after: Page, outcomes: bytes) -> Change:
    seen = before.version if before is not None else 0
    after.version = seen + 1
    return Change(page_id, seen, encode_page(after), encode_row(after), outcomes)
