"""The instant tier of a crawl that goes on: every few minutes its hubs that are worth a visit."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, Final

from scrapy.utils.defer import maybe_deferred_to_future

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.part import Part
from hacs_crawler.exceptions import ConfigError, StateError
from hacs_crawler.model import update_index
from hacs_crawler.ranking.choice import Quota
from hacs_crawler.ranking.instant import Hubs, due, hubs_now, read_tier
from hacs_crawler.ranking.options import InstantOptions, RankingOptions
from hacs_crawler.ranking.policies import Floats
from hacs_crawler.utils.loop import begin, wait_for
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

MINUTE: Final = 60.0
# The part of the tier's visits that goes to hubs not visited for longest, whatever they are worth.
EXPLORE: Final = 0.05
# The tier takes at most so much of the budget: other pages keep the rest whatever happens.
MOST_SHARE: Final = 0.9
# The first round leaves so much of the budget to the tier, whose worth is not known yet.
FIRST_SHARE: Final = 0.5
# Of requests for hubs: they go before the seeds of a round, which may take hours.
PRIORITY: Final = 1
# What the stats `hacs/instant/…` count.
COUNTED: Final = ("rounds", "visits", "updates", "new_links")
# A hub that was sent and never heard of may be sent again after so long.
LONGEST_SECONDS: Final = 3600.0


class InstantTier(Part):
    """Decides when hubs are visited, and takes their visits out of the other pages' budget.

    A hub is due if its M is above the price: the score of the last page that a round's budget
    reached. The hubs' visits are missing in the next round's budget, so that the price rises until
    both are worth the same.
    """

    def __init__(
        self,
        ranking: RankingOptions,
        stat: Callable[[str], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        assert ranking.instant is not None  # noqa: S101 - there is a tier
        self._quota = Quota(ranking.budget)
        self._options: InstantOptions = ranking.instant
        self._stat = stat
        self._clock = clock
        self._summed_up = [0] * len(COUNTED)
        self._next_at = self._explore_owed = 0.0
        self._sent: dict[str, float] = {}
        self._taken: int | None = None
        self._made = 0
        self._least_p, self._spent = 1.0, 0
        # What a visit costs, in links.
        self.price = 0.0
        # Whether this crawl has rounds of the tier.
        self.is_running = False

    @classmethod
    def from_crawl(cls, crawl: Crawl) -> InstantTier:
        """Return the part of a crawl."""
        return cls(crawl.config.ranking, crawl.stats.get)

    async def opened(self) -> None:
        """Read the list of hubs, so that faults in it are reported before any request."""
        read_tier(self._options)

    def quota(self, quota: Quota) -> Quota:
        """Return the visits of a round of all pages: the budget without the tier's visits."""
        # a shard's quota differs in each round
        self._quota, budget = quota, quota.budget
        if not budget or not self.is_running:
            return quota
        if self._taken is None:
            self._taken = math.floor(FIRST_SHARE * budget)
        return replace(quota, budget=max(1, budget - self._taken), unseen=None)

    def chosen(self, p: Floats, twice: int) -> None:
        """Learn the p of pages that a round of all pages chose, and how many are requested twice.

        If they use up the budget, the last of them gives the price of a visit.
        """
        self._least_p = min(self._least_p, float(p.min(initial=1.0)))
        self._spent += len(p) + twice
        budget = self.quota(self._quota).budget
        if budget is not None and self._spent >= budget and self._spent > twice:
            self.price = self._options.update_value * float(update_index(self._least_p))

    async def round_began(self) -> None:
        """Begin a round of all pages, with a budget reduced by the tier's visits."""
        budget = self.quota(self._quota).budget
        if budget is None or self._spent < budget:
            self.price = 0.0  # the budget is not used up: visits cost nothing
        self._taken, self._made = self._made, 0
        self._least_p, self._spent = 1.0, 0

    def sum_up(self) -> None:
        """Log the tier's work: its rounds never pause."""
        now = [self._stat(f"instant/{name}") for name in COUNTED]
        since = [number - before for number, before in zip(now, self._summed_up, strict=True)]
        self._summed_up = now
        if since[0]:
            logger.info(
                "Instant tier: %s, %s to hubs, %s with %s",
                *map(counted, since, ("round", "visit", "update", "new link")),
            )

    def due_in(self) -> float:
        """Return in how many seconds the next round of the tier begins."""
        return self._next_at - self._clock()

    def round(self, hubs: Hubs) -> list[str]:
        """Return the URLs of the hubs to be visited now, best first."""
        self.postpone()
        now, budget = self._clock(), self._quota.budget
        self._sent = {url: at for url, at in self._sent.items() if at > now - LONGEST_SECONDS}
        most = 2**31 if budget is None else max(0, math.floor(MOST_SHARE * budget) - self._made)
        places = due(hubs, self.price, most, math.floor(self._explore_owed + 1e-9))
        urls = [hubs.tier.urls[index] for index in places.tolist()]
        urls = [url for url in urls if url not in self._sent]
        self._sent |= dict.fromkeys(urls, now)
        self._made += len(urls)
        self._explore_owed = self._explore_owed % 1.0 + EXPLORE * max(1, len(urls))
        return urls

    def postpone(self) -> None:
        """Begin no round before the usual time has passed."""
        self._next_at = self._clock() + self._options.minutes * MINUTE

    def on_answer(self, url: str) -> None:
        """Let a hub be requested again: its request has ended, however it did."""
        self._sent.pop(url, None)


async def hubs_of(crawl: Crawl, tier: InstantTier) -> list[str]:
    """Begin a round of the tier; return the URLs of the hubs to be visited, best first.

    Reads the list, and the tier's own pages. What cannot be read is said, and the round left out.
    """
    config = crawl.config
    if not crawl.is_open:
        return []
    try:
        hubs = await crawl.state.once(hubs_now, config.ranking, crawl.clock(), config.shard)
    except (ConfigError, StateError) as error:
        tier.postpone()
        logger.warning("No round of the instant tier: %s", error)
        return []
    urls = tier.round(hubs)
    crawl.stats.count("instant/rounds")
    if urls:
        crawl.stats.count("instant/sent", len(urls))
    crawl.stats.gauge("instant/hubs", len(hubs.tier))
    crawl.stats.gauge("instant/price", round(tier.price, 4))
    logger.debug(
        "Instant tier: %d of %d hubs are to be visited, at a price of %.3g links a visit",
        len(urls),
        len(hubs.tier),
        tier.price,
    )
    return urls


async def with_tier(
    crawl: Crawl, tier: InstantTier, requests: AsyncIterator[Any], request_of: Callable[[str], Any]
) -> AsyncIterator[Any]:
    """Yield requests as they come, and whenever a round of the tier begins those for its hubs.

    Those that come may be long in coming: they wait for room, and for the next round of all pages.
    """
    tier.is_running = True
    coming = begin(_next(requests))
    while crawl.failure is None:
        if tier.due_in() <= 0:
            for url in await hubs_of(crawl, tier):
                yield request_of(url)
        await wait_for(coming, max(0.0, tier.due_in()))
        if not coming.called:
            continue
        request = await maybe_deferred_to_future(coming)
        if request is _END:
            return
        yield request
        coming = begin(_next(requests))


_END: Final = object()


async def _next(requests: AsyncIterator[Any]) -> Any:
    return await anext(requests, _END)
