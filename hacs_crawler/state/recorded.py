"""What a visit brought: links, or other marks, new to its page, and to its site."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from hacs_crawler.links import menu_id, page_id_of, site_id
from hacs_crawler.model import CHURNING
from hacs_crawler.state.merging import merge, remember_echo
from hacs_crawler.state.outcome_log import outcome
from hacs_crawler.state.page import News, Page, Updates, Visit
from hacs_crawler.state.site_links import LinkClaim, owned_links


class Memories(Protocol):
    """What remembers the links of sites: a store, or what was read of one."""

    def claim(self, claims: Sequence[LinkClaim]) -> list[NDArray[np.bool_]]:
        """Claim links for pages; see `Store.claim`."""


class Recorded(Struct, frozen=True):
    """What a recorded visit brought, and its page before and after.

    `new_marks` are the links l*(m_i) of the paper, or on a page that keeps spells the marks that are
    news as HACS_UPDATES says; `lost` counts the marks that the visit before showed and this one did not.
    `new_to_site` are the new marks that no other page of the site was known to show, None where
    `on_their_sites` was not asked. `is_known` is False where what was known of the page could not be
    read.
    """

    visit: Visit
    new_marks: frozenset[int]
    updated: bool
    before: Page
    after: Page
    is_known: bool = True
    new_to_site: frozenset[int] | None = None
    lost: int = 0

    @property
    def is_baseline(self) -> bool:
        """Whether the visit went by other rules of links than the one before: it found no gap."""
        return self.visit.at in self.after.baselines

    @property
    def updated_site(self) -> bool:
        """Whether there was an update that was new to the site, as far as is known."""
        return self.updated and (self.new_to_site != frozenset() or not self.new_marks)

    def is_update(self, updates: Updates) -> bool:
        """Whether there was what counts as an update."""
        return self.updated_site if updates == "site" else self.updated


def merged(
    before: Page, page: Page, visit: Visit, updates: Updates = "page", *, is_known: bool = True
) -> Recorded:
    """Merge a visit into `page`, a copy of `before`, and say what it brought.

    `updates` says what is news on a page that keeps spells.
    """
    new_marks = merge(page, visit)
    updated = bool(before.visits) and bool(new_marks)
    lost = 0
    if page.keeps_spells and visit.marks is not None:
        if updates in {"novel", "site"}:
            new_marks -= page.spells.until(visit.at)
        updated = visit.at in page.updates_of("novel" if updates == "site" else updates)
        lost = _lost(page, visit.at)
    if visit.digest and not updated:
        updated = visit.at in page.update_times
    return Recorded(visit, new_marks, updated, before, page, is_known, lost=lost)


def still_hold(recorded: Sequence[Recorded], present: Page | None) -> bool:
    """Whether a page's visits were merged one after the other, by time, beginning with it as it is."""
    is_begun = bool(recorded) and recorded[0].before is present
    return is_begun and all(
        earlier.after is following.before and earlier.visit.at <= following.visit.at
        for earlier, following in pairwise(recorded)
    )


def on_their_sites(recorded: Sequence[Recorded], memories: Memories) -> list[Recorded]:
    """Return what visits brought, given in the order of time, with what of it was new to their sites.

    Echoes are noted in their pages. One call of `memories.claim`, if there is anything to ask for.
    """
    for visited in recorded:
        if _shows_links(visited.visit):
            visited.after.is_in_site = True  # from when this visit is written
    claims = [_claim_of(visited) for visited in recorded]
    made = [visited for visited in claims if visited is not None]
    owned = iter(memories.claim(made) if made else ())
    on_sites = []
    echoes: dict[int, list[int]] = {}
    for visited, own in zip(recorded, claims, strict=True):
        new_to_site = (
            visited.new_marks if own is None else owned_links(visited.new_marks, own, next(owned))
        )
        visited = replace(visited, new_to_site=new_to_site)  # noqa: PLW2901 - the same visit
        of_page = echoes.setdefault(page_id_of(visited.visit.url), [])
        if visited.updated and not visited.updated_site:
            of_page.append(visited.visit.at)
        for at in of_page:  # pages of later visits were copied before
            remember_echo(visited.after, at)
        on_sites.append(visited)
    return on_sites


def outcome_record(recorded: Recorded, updates: Updates) -> bytes:
    """Return the outcome record (dtype `OUTCOME`) of a ranked visit, nothing of any other."""
    prediction = recorded.visit.prediction
    if prediction is None:
        return b""
    new_to_site = recorded.new_marks if recorded.new_to_site is None else recorded.new_to_site
    return outcome(
        prediction,
        page_id=page_id_of(recorded.visit.url),
        site=site_id(recorded.visit.url),
        at=recorded.visit.at,
        answer_bytes=recorded.visit.bytes,
        is_seen=recorded.visit.news is News.SEEN and not recorded.is_baseline,
        new_links=len(recorded.new_marks) if recorded.updated else 0,
        new_to_site=len(new_to_site) if recorded.updated else 0,
        is_update=recorded.is_update(updates),
    )


def _lost(page: Page, at: int) -> int:
    """Return how many marks a visit did not show that the visit before it did."""
    shown_at = page.shown_at
    place = bisect_left(shown_at, at)
    if not place or at in page.baselines:
        return 0
    return page.last_seen.count(shown_at[place - 1])


def _shows_links(visit: Visit) -> bool:
    return visit.news is News.SEEN and visit.marks is not None


def _claim_of(recorded: Recorded) -> LinkClaim | None:
    """Return what a visit asks of its site's memory: new links, all where it has none of the page."""
    visit = recorded.visit
    if not _shows_links(visit):
        return None
    if recorded.before.churn >= CHURNING:  # passing links would push out what the site remembers
        return None
    is_known = recorded.before.is_in_site and not recorded.is_baseline
    links = recorded.new_marks if is_known else visit.marks
    return LinkClaim.of(menu_id(visit.url), page_id_of(visit.url), links) if links else None
