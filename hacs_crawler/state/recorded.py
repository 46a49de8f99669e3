"""The outcome of a visit: the links or other marks that are new to its page, and to its site."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from copy import copy
from itertools import compress, pairwise

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from hacs_crawler.links import menu_id, page_id_of, site_id
from hacs_crawler.model import CHURNING
from hacs_crawler.state.judging import CHURN_SECONDS
from hacs_crawler.state.merging import merge, thinned
from hacs_crawler.state.outcome_log import MOST_LINKS, PACKED, flags_of
from hacs_crawler.state.page import Counted, News, Page, Visit
from hacs_crawler.state.rule_changes import is_of_items
from hacs_crawler.state.site_links import LinkClaim, owned_links


class Recorded(Struct, frozen=True):
    """The outcome of a recorded visit, and its page before and after.

    `new_marks` are the marks that are news by HACS_UPDATES, by default the links l*(m_i) of the paper
    (Jayawardana et al. 2020); `lost` counts the marks that the visit before showed and this visit did
    not. `new_to_site` are the new marks that no other page of the site was known to show, None without
    `on_their_sites`. `is_known` is False if the page could not be read from the store. `is_doubtful`
    says that the visit will count only if a later visit confirms it (see `state.judging`).
    """

    visit: Visit
    new_marks: frozenset[int]
    updated: bool
    before: Page
    after: Page
    is_known: bool = True
    new_to_site: frozenset[int] | None = None
    lost: int = 0
    is_doubtful: bool = False

    @property
    def is_baseline(self) -> bool:
        """Whether the rules changed since the visit before, so that no gap ends here."""
        return self.visit.at in self.after.baselines

    @property
    def has_other_rules(self) -> bool:
        """Whether the rules changed since the latest visit that showed marks: these are not compared."""
        return self.visit.marks is not None and self.before.latest_rules not in {
            0,
            self.visit.rules,
        }

    @property
    def came_soon(self) -> bool:
        """Whether differences from the visit before count as churn, as those of a control visit."""
        gap = self.visit.at - (self.before.last_visit or 0)
        return 0 < gap <= CHURN_SECONDS and not is_of_items(self.after.latest_rules)

    @property
    def updated_site(self) -> bool:
        """Whether there was an update that was new to the site; True if that is not known."""
        return self.updated and (self.new_to_site != frozenset() or not self.new_marks)

    @property
    def is_loss(self) -> bool:
        """Whether there was an update that only took marks away."""
        return self.updated and self.lost > 0 and not self.new_marks

    def is_update(self, updates: Counted) -> bool:
        """Whether there was an update as HACS_UPDATES defines it."""
        return self.updated_site if updates == "site" else self.updated


def merged(
    before: Page, visit: Visit, updates: Counted = "default", *, is_known: bool = True
) -> Recorded:
    """Merge a visit into a copy of its page, and return its outcome."""
    page = copy(before)
    merge(page, visit)
    page.count(updates)
    if visit.news is not News.SEEN and not visit.digest:
        return Recorded(visit, frozenset(), False, before, page, is_known)
    is_first = not (before.visits or before.unread or visit.digest)
    is_latest = visit.at > (before.last_visit or 0) and not visit.digest
    if is_first or (is_latest and page.spells == before.spells and before.sound is before):
        return Recorded(visit, frozenset(), False, before, page, is_known)
    at, sound = visit.at, page.sound
    if at not in sound.visits:
        is_doubtful = visit.marks is not None
        return Recorded(visit, frozenset(), False, before, page, is_known, is_doubtful=is_doubtful)
    updated = bool(before.visits) and at in sound.update_times
    new = sound.news.get(at, frozenset())
    return Recorded(visit, new, updated, before, page, is_known, lost=lost_at(sound, at))


def lost_at(page: Page, at: int) -> int:
    """Return how many marks of the visit before the visit at a second did not show; for sound pages."""
    before = bisect_left(page.shown_at, at) - 1
    if before < 0 or at in page.baselines:
        return 0
    ends, numbers = page.spells.periods[1::3], page.spells.periods[2::3]
    return sum(compress(numbers, (end == page.shown_at[before] for end in ends)))


def still_hold(recorded: Sequence[Recorded], present: Page | None) -> bool:
    """Whether a page's visits were merged in order of time, the first one with the present page."""
    return recorded[0].before is present and all(
        earlier.after is following.before and earlier.visit.at <= following.visit.at
        for earlier, following in pairwise(recorded)
    )


def on_their_sites(
    recorded: Sequence[Recorded], claim: Callable[[Sequence[LinkClaim]], list[NDArray[np.bool_]]]
) -> list[Recorded]:
    """Return the outcomes of visits, given in order of time, with the marks that are new to their sites.

    `claim` (see `site_links.claim_links`) is called at most once. Adds echoes to the pages.
    """
    for visited in recorded:
        if _shows_marks(visited):
            visited.after.is_in_site = True  # takes effect when this visit is written
    claims = [_claim_of(visited) for visited in recorded]
    made = [visited for visited in claims if visited is not None]
    owned = iter(claim(made) if made else ())
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
        if of_page:  # the pages of later visits were copied before these echoes were known
            visited.after.echoes = thinned([*visited.after.echoes, *of_page])
        on_sites.append(visited)
    return on_sites


def outcome_record(recorded: Recorded, updates: Counted) -> bytes:
    """Return the outcome record (dtype `OUTCOME`) of a ranked visit, no bytes for other visits."""
    visit, prediction = recorded.visit, recorded.visit.prediction
    if prediction is None:
        return b""
    new_to_site = recorded.new_marks if recorded.new_to_site is None else recorded.new_to_site
    is_seen = visit.news is News.SEEN and not (recorded.is_baseline or recorded.is_doubtful)
    is_update = recorded.is_update(updates)
    return PACKED.pack(
        page_id_of(visit.url),
        visit.at,
        prediction.run,
        site_id(visit.url),
        prediction.label,
        prediction.p,
        prediction.days_since_visit,
        min(len(recorded.new_marks), MOST_LINKS) * recorded.updated,
        min(len(new_to_site), MOST_LINKS) * recorded.updated,
        min(visit.bytes, 2**32 - 1),
        flags_of(is_seen=is_seen, is_update=is_update, churn=prediction.churn),
    )


def _shows_marks(visited: Recorded) -> bool:
    return visited.visit.marks is not None and not visited.is_doubtful


def _claim_of(recorded: Recorded) -> LinkClaim | None:
    """Return a visit's claim: on its new links, or on all links if its site's memory lacks the page."""
    visit = recorded.visit
    if not _shows_marks(recorded):
        return None
    # the links of a churning page would push lasting ones out of the memory
    if recorded.before.churn >= CHURNING:
        return None
    is_known = recorded.before.is_in_site and not recorded.is_baseline
    links = recorded.new_marks if is_known else visit.marks
    return LinkClaim.of(menu_id(visit.url), page_id_of(visit.url), links) if links else None
