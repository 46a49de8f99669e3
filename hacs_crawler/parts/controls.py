"""Control visits: a page is requested twice in a row; differences come from the request.

See `ranking.controls` for the choice of pages. Parts of links that change with every request are
then removed from the links of all pages of the host.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from scrapy.http import Response, TextResponse

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.for_parts import CrawlPart, SecondVisits
from hacs_crawler.crawl.meta import tag_of
from hacs_crawler.crawl.observation import tree_of
from hacs_crawler.crawl.part import Observed
from hacs_crawler.exceptions import StateError
from hacs_crawler.links import (
    LinkRules,
    SharedLinkParts,
    VolatileLinkParts,
    host_of,
    link_fingerprint,
    source_links,
)
from hacs_crawler.ranking.choice import Quota
from hacs_crawler.ranking.controls import Allowance, keep_allowance, take_allowance
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.policies import Floats
from hacs_crawler.state import Recorded, State, Visit, learn_volatile_parts, read_volatile_parts
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.watch import Rules

logger = safe_logger(__name__)


class Controls(CrawlPart):
    """Makes control visits of the pages that ranking marked, and learns from them."""

    def __init__(self, crawl: Crawl) -> None:
        super().__init__(crawl)
        self._control_visits = SecondVisits(crawl)
        self._volatile: dict[str, VolatileLinkParts] = {}
        self._shared = SharedLinkParts({})
        self._allowance = Allowance()

    async def opened(self) -> None:
        """Read the volatile parts of hosts' links, and the allowance of control visits."""
        self._begin(await self._crawl.state.once(_read_known, self._crawl.ranking, self._shards))

    async def round_began(self) -> None:
        """Read them again: other crawls may have learned more."""
        self._begin(
            await self._crawl.state.patiently(_read_known, self._crawl.ranking, self._shards)
        )

    async def round_ended(self, is_asked_to_end: Callable[[], bool]) -> None:
        """Keep the unused control visits for later runs."""
        allowance, self._allowance = self._allowance, Allowance()
        has_visited = bool(self._crawl.stats.recorded)
        await self._crawl.state.once(keep_allowance, allowance, has_visited=has_visited)

    def quota(self, quota: Quota) -> Quota:
        """Allow control visits, unless items are watched or the policy does not use λ."""
        is_off = self._crawl.config.takes_items or not self._crawl.config.ranking.policy.uses_rate
        return replace(quota, controls=0 if is_off else self._allowance.most)

    def chosen(self, p: Floats, twice: int) -> None:
        """Deduct the chosen control visits from the allowance."""
        self._allowance.made += twice

    def rules(self, response: Response, rules: Rules, page: object = None) -> Rules:
        """Return rules that remove the volatile parts of the host's links."""
        if not self._volatile or not isinstance(rules, LinkRules):
            return rules
        volatile = self._volatile.get(host := host_of(response.url))
        if volatile is None and isinstance(response, TextResponse):
            volatile = self._shared.of(host, response.text)
        return rules if volatile is None else replace(rules, volatile=volatile)

    def observed(self, observed: Observed) -> Iterable[Visit]:
        """Begin a control visit if ranking marked the page."""
        is_seen = not observed.reason and observed.visit.marks is not None
        if not is_seen or not tag_of(observed.request).visit_twice:
            return ()
        links, first = self._links(observed.response), observed.recorded

        async def learn(second: Recorded, response: Response) -> None:
            # if every link has a session id, none is the same again, and the visit is doubtful
            if second.updated or second.is_doubtful:
                self._crawl.stats.count("controls/differed")
                await self._learn(host_of(response.url), links, self._links(response), first)

        self._control_visits.begin(observed.request, first, learn)
        return ()

    def busy(self) -> bool:
        """Whether a control visit is in progress."""
        return self._control_visits.under_way > 0

    @property
    def _shards(self) -> int:
        """How many crawls share the budget and the control visits."""
        return self._crawl.quota.shards

    def _begin(self, read: tuple[dict[str, VolatileLinkParts], Allowance]) -> None:
        self._volatile, self._allowance = read
        self._shared = SharedLinkParts(self._volatile)
        is_idle = not self._volatile and self._allowance.most <= 0
        self.unneeded = ("rules", "observed") if is_idle else ()

    async def _learn(
        self, host: str, links: frozenset[str], others: frozenset[str], first: Recorded
    ) -> None:
        """Learn which parts of the links change with every request."""
        marks_before = set(first.before.spells.marks)

        def is_known(link: str) -> bool:
            return link_fingerprint(link) in marks_before

        try:
            volatile = await self._crawl.state.once(
                learn_volatile_parts, host, links, others, is_known
            )
        except StateError as error:
            logger.warning(
                "Volatile parts of the links of %s could not be written: %s", host, error
            )
            return
        if volatile.parts != self._volatile.get(host, VolatileLinkParts(host)).parts:
            logger.info(
                "Links of %s change with every request, as seen on %s: from now on %s is left out of "
                "them (`hacs forget %s` undoes it)",
                host,
                first.visit.url,
                ", ".join(map(str, sorted(volatile.parts))),
                host,
            )
            self._volatile[host] = volatile
            self._shared = SharedLinkParts(self._volatile)

    def _links(self, response: Response) -> frozenset[str]:
        """Return the canonical links of an observed page; none if links are not watched."""
        rules = self._crawl.config.rules
        if not isinstance(rules, LinkRules):
            return frozenset()
        assert isinstance(response, TextResponse)  # noqa: S101 - only HTML shows links
        return frozenset(source_links(tree_of(response), response.url, rules).counted(rules))


def _read_known(
    state: State, options: RankingOptions, shards: int
) -> tuple[dict[str, VolatileLinkParts], Allowance]:
    allowance = take_allowance(state, options.budget, options.control_share / shards)
    return read_volatile_parts(state), allowance
