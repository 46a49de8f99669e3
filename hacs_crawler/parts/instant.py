"""The instant tier of a continuous crawl: every few minutes, the hubs that are worth a visit."""

import math
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, Final, Self

from scrapy.utils.defer import maybe_deferred_to_future

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.part import Part
from hacs_crawler.exceptions import ConfigError, StateError
from hacs_crawler.model import update_index
from hacs_crawler.ranking.choice import Quota
from hacs_crawler.ranking.instant import Hubs, due, hubs_now, read_tier
from hacs_crawler.ranking.options import InstantOptions, RankingOptions
from hacs_crawler.ranking.policies import Floats
from hacs_crawler.utils.loop import END, begin, next_or_end, wait_for
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

MINUTE: Final = 60.0
# The share of the tier's visits for the hubs whose last visit is longest ago, regardless of value.
EXPLORE: Final = 0.05
# The highest share of the budget for the tier; other pages keep the rest.
MOST_SHARE: Final = 0.9
# The tier's share of the budget in the first round, when its value is not known yet.
FIRST_SHARE: Final = 0.5
# The priority of requests for hubs: above the seeds of a round, which may take hours.
PRIORITY: Final = 1
# The stats `hacs/instant/…` in the summary.
COUNTED: Final = ("rounds", "visits", "updates", "new_links")
# A hub whose request never ended may be requested again after this time.
LONGEST_SECONDS: Final = 3600.0


class InstantTier(Part):
    """Decides when hubs are visited, and reduces the budget of the other pages accordingly.

    A hub is due if its M exceeds the price: the score of the last page within a round's budget. The
    tier's visits are deducted from the next round's budget, which raises the price until a hub's
    visit is worth as much as another page's.
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
        # The cost of a visit, in links.
        self.price = 0.0
        # Whether the crawl has begun to run the tier.
        self.is_running = False

    @classmethod
    def from_crawl(cls, crawl: Crawl) -> Self:
        """Make the part."""
        return cls(crawl.config.ranking, crawl.stats.get)

    async def opened(self) -> None:
        """Read the list of hubs, to report faults before any request."""
        read_tier(self._options)

    def quota(self, quota: Quota) -> Quota:
        """Reduce the budget of a round of all pages by the tier's visits."""
        # a shard's quota differs in each round
        self._quota, budget = quota, quota.budget
        if not budget or not self.is_running:
            return quota
        if self._taken is None:
            self._taken = math.floor(FIRST_SHARE * budget)
        return replace(quota, budget=max(1, budget - self._taken), unseen=None)

    def chosen(self, p: Floats, twice: int) -> None:
        """Update the price: if the chosen pages use up the budget, it follows from their lowest p."""
        self._least_p = min(self._least_p, float(p.min(initial=1.0)))
        self._spent += len(p) + twice
        budget = self.quota(self._quota).budget
        if budget is not None and self._spent >= budget and self._spent > twice:
            self.price = self._options.update_value * float(update_index(self._least_p))

    async def round_began(self) -> None:
        """Begin a round of all pages, with a budget reduced by the tier's visits."""
        budget = self.quota(self._quota).budget
        if budget is None or self._spent < budget:
            self.price = 0.0  # visits from an unused budget cost nothing
        self._taken, self._made = self._made, 0
        self._least_p, self._spent = 1.0, 0

    def sum_up(self) -> None:
        """Log the tier's work since the last summary."""
        now = [self._stat(f"instant/{name}") for name in COUNTED]
        since = [number - before for number, before in zip(now, self._summed_up, strict=True)]
        self._summed_up = now
        if since[0]:
            logger.info(
                "Instant tier: %s, %s to hubs, %s with %s",
                *map(counted, since, ("round", "visit", "update", "new link")),
            )

    def due_in(self) -> float:
        """Return the seconds until the next round of the tier."""
        return self._next_at - self._clock()

    def round(self, hubs: Hubs) -> list[str]:
        """Return the URLs of the hubs to visit now, best first."""
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
        """Delay the next round by the usual time."""
        self._next_at = self._clock() + self._options.minutes * MINUTE

    def on_answer(self, url: str) -> None:
        """Note that a hub's request has ended, with or without an answer."""
        self._sent.pop(url, None)


async def hubs_of(crawl: Crawl, tier: InstantTier) -> list[str]:
    """Begin a round of the tier; return the URLs of the hubs to visit, best first.

    If the list or the state cannot be read, this is logged, and the round skipped.
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
    """Yield `requests`, and between them, in each round of the tier, requests for hubs.

    `requests` may pause for long: for room in the queue, or until the next round of all pages.
    """
    tier.is_running = True
    coming = begin(next_or_end(requests))
    while crawl.failure is None:
        if tier.due_in() <= 0:
            for url in await hubs_of(crawl, tier):
                yield request_of(url)
        await wait_for(coming, max(0.0, tier.due_in()))
        if not coming.called:
            continue
        request = await maybe_deferred_to_future(coming)
        if request is END:
            return
        yield request
        coming = begin(next_or_end(requests))
