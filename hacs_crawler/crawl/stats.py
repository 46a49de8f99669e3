"""Scrapy stats under `hacs/`, and the crawl's summary in a sentence."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scrapy.statscollectors import StatsCollector

from hacs_crawler.ranking.demands import NOTHING, Demanded
from hacs_crawler.state import CHURN_SECONDS, Counted, News, Recorded, chance_of_new_links
from hacs_crawler.utils.arrays import FloatArray
from hacs_crawler.utils.text import counted, safe_logger
from hacs_crawler.watch import ONLY_REQUESTS

if TYPE_CHECKING:
    from hacs_crawler.config import Pages
    from hacs_crawler.ranking.plan import Plan

logger = safe_logger(__name__)

MOST_CAUSES: Final = 20
# Below this share of pages among the responses, the log says how to change that.
FEW_PAGES_SHARE: Final = 0.5
LEAST_RESPONSES: Final = 10  # with fewer, it does not
MOST_CHURNING: Final = 10_000
# Reasons with words of their own in the summary; for others a request "failed".
_NAMED: Final = (
    *("cached", "doubtful", "other_type", "rejected"),
    *("nothing_shown", "callback_failed", "unreadable"),
)
# Endings of summary lines about visits, by stat.
_REMARKS: Final = {
    "same_second": "fell into the second of another visit of the page, such as one by another crawl: "
    "counted as one visit with it",
    "baselines": "served as a baseline: what is watched has changed since the visit before (HACS_WATCH "
    "or a setting beside it, such as HACS_WATCH_KEY or HACS_WATCH_IGNORE). OnlyChanges passes all items "
    "of a baseline. Updates counted earlier stay in the estimates; if they were false, another "
    "HACS_NAMESPACE begins without them",
}


@dataclass(slots=True)
class CrawlStats:
    """The stats of one crawl, and the predictions and outcomes of its visits."""

    collector: StatsCollector
    recorded: int = 0
    answers: int = 0  # responses of pages, including failures
    unrecorded: int = 0  # responses of pages that arrived after the crawl had failed
    readable_answers: int = 0  # responses that may show marks, of pages or not
    not_a_page: str | None = None  # the URL of the first answer that was not for a page
    posted: str = ""  # names the first start request that was not a page's, as it was not a GET
    watched: str = "link"  # the noun for a watched mark
    # Pages whose visits of this round wait to be confirmed.
    doubtful: dict[str, None] = field(default_factory=dict)
    taken_back: int = 0  # counted updates of ranked pages
    expected_of_unseen: float = 0  # counted expected updates of visits that did not show the page
    linked: int = 0  # visits that showed watched marks
    linkless: int = 0  # visits with links or other sources of marks, none of which count
    dropped_new: int = 0  # pages never seen that this round's budget left out
    unsent: int = 0  # ranked requests that were waiting when the crawl was stopped
    # Types of the answers that cannot show any watched mark, of pages and of other requests.
    other_answers: Counter[str] = field(default_factory=Counter)
    unread_answers: Counter[str] = field(default_factory=Counter)
    # The patterns of settings that applied to a page.
    matched: set[str] = field(default_factory=set)
    # The demands on all known pages, if a crawl requests the best of these within its budget.
    known: Demanded = NOTHING
    _has_said_overdue: bool = False
    _counts_by_site: bool = False
    _causes: Counter[str] = field(default_factory=Counter)
    _rejected: Counter[str] = field(default_factory=Counter)
    _bare: str = ""  # names the first page that showed no watched mark
    _p: array[float] = field(default_factory=lambda: array("f"))
    _churn: array[float] = field(default_factory=lambda: array("f"))
    _found: bytearray = field(default_factory=bytearray)
    _churning: Counter[str] = field(default_factory=Counter)
    _before: dict[str, Any] = field(default_factory=dict)
    _extras: dict[str, str] = field(default_factory=dict)

    def count(self, name: str, number: float = 1) -> None:
        """Add to the stat `hacs/<name>`; without an event it stays absent."""
        if number:
            self.collector.inc_value(f"hacs/{name}", number)  # type: ignore[arg-type]

    def count_extra(self, name: str, noun: str) -> None:
        """Count an event other than the spider's visits; the summary uses the noun."""
        self.count(name)
        self._extras[name] = noun

    def get(self, name: str) -> int:
        """Return the stat `hacs/<name>`, or 0."""
        return int(self.collector.get_value(f"hacs/{name}", 0))

    def gauge(self, name: str, number: float) -> None:
        """Set the stat `hacs/<name>`."""
        self.collector.set_value(f"hacs/{name}", number)

    def causes(self) -> str:
        """Return why pages were not seen, the most frequent cause first."""
        return ", ".join(f"{number} x {cause}" for cause, number in self._causes.most_common())

    def count_not_observed(
        self, reason: str, url: str, rejected: str = "", *, cause: str = ""
    ) -> None:
        """Count a request that did not show its page, and why it failed or the project rejected it."""
        cause = "" if reason in _NAMED else cause or reason.replace("_", " ")
        for causes, why in ((self._rejected, rejected), (self._causes, cause)):
            if why:
                causes[why if why in causes or len(causes) < MOST_CAUSES else "other"] += 1
        if reason == "nothing_shown":
            self._bare = self._bare or f", such as {url}"
        elif reason == "doubtful":
            self.doubtful[url] = None
        self.count("not_observed")
        self.count(f"not_observed/{reason}")

    def count_churning(self, url: str, *, is_update: bool) -> None:
        """Count a visit of a page whose links change with the request, not with time."""
        self.count("churn/visits")
        if is_update:
            self.count("churn/updates")
        is_counted = url in self._churning or len(self._churning) < MOST_CHURNING
        self._churning[url if is_counted else ""] += 1

    @property
    def predicted(self) -> int:
        """How many visits were compared with predictions."""
        return len(self._found)

    @property
    def found_updates(self) -> int:
        """How many of these visits found new marks, by time or by churn."""
        return self._found.count(1) - self.taken_back

    @property
    def expected_updates(self) -> float:
        """How many of them were expected to."""
        return float(self._chance(0).sum()) - self.expected_of_unseen

    def _chance(self, first: int) -> FloatArray:
        p, churn = (np.array(numbers[first:], np.float64) for numbers in (self._p, self._churn))
        return chance_of_new_links(p, churn)

    def count_plan(self, plan: Plan, budget: int | None) -> None:
        """Count the pages of the state that were scored, chosen and dropped."""
        self.count("seeds", plan.known)
        self.count("ranked", len(plan))
        self.count("dropped/gone", plan.waiting)
        self.count("dropped/early", plan.early)
        self.count("dropped/threshold", plan.below_threshold)
        self.count("dropped/budget", plan.left_out)
        self.matched |= plan.demanded.matched
        self.gauge_overdue(plan.demanded, int(plan.is_overdue.sum()), budget)

    def gauge_overdue(self, left: Demanded, chosen: int, budget: int | None) -> None:
        """Count the overdue pages that are `left`; log the demands once, see `Demanded.log`."""
        if not left.visits_a_day:
            return
        left = Demanded(
            max(left.overdue, self.known.overdue - chosen),
            max(left.visits_a_day, self.known.visits_a_day),
            min(left.shortest_days, self.known.shortest_days),
        )
        self.gauge("overdue", left.overdue)
        if not self._has_said_overdue:
            self._has_said_overdue = True
            left.log(logger, chosen, budget)

    def count_recorded(self, recorded: Sequence[Recorded], updates: Counted) -> None:
        """Count visits that the store has acknowledged; `updates` says what counts as an update."""
        # doubtful visits count as not observed
        seen = [
            visited
            for visited in recorded
            if visited.visit.news is News.SEEN
            and not (visited.is_doubtful and visited.visit.url in self.doubtful)
        ]
        self._counts_by_site = updates == "site"
        self._count_predictions(seen, updates)
        updated = [visited for visited in seen if visited.updated]
        lists = [visited for visited in updated if visited.visit.rules == ONLY_REQUESTS.fingerprint]
        own = [visited for visited in updated if visited.visit.rules != ONLY_REQUESTS.fingerprint]
        self.recorded += len(seen)
        self.linked += sum(bool(visited.visit.marks) for visited in seen)
        self.linkless += sum(
            visited.visit.hrefs > 0 and not visited.visit.marks for visited in seen
        )
        self.count("visits", len(seen))
        self.count("first_visits", sum(not visited.before.visits for visited in seen))
        self.count("updates", sum(visited.is_update(updates) for visited in updated))
        self.count("links_new_to_site", sum(len(visited.new_to_site or ()) for visited in own))
        self.count("new_links", sum(len(visited.new_marks) for visited in own))
        self.count("list_updates", sum(visited.updated_site for visited in lists))
        self.count("losses", sum(visited.is_loss for visited in own))
        self.count("gone", sum(visited.visit.news is News.GONE for visited in recorded))
        self.count("same_second", sum(one.visit.at in one.before.visits for one in seen))
        self.count("soon_again", sum(visited.came_soon for visited in seen))
        self.count("baselines", sum(visited.has_other_rules for visited in seen))

    def _count_predictions(self, seen: Sequence[Recorded], updates: Counted) -> None:
        """Compare p and churn of ranked visits with their outcomes."""
        ranked = [
            (prediction, visited.is_update(updates))
            for visited in seen
            if (prediction := visited.visit.prediction) is not None
            and math.isfinite(prediction.days_since_visit)
            and not visited.is_baseline
        ]
        if not ranked:
            return
        first = self.predicted
        self._p.extend(prediction.p for prediction, _ in ranked)
        self._churn.extend(prediction.churn for prediction, _ in ranked)
        self._found.extend(is_update for _, is_update in ranked)
        self.count("expected_updates", float(self._chance(first).sum()))
        self.count("found_updates", sum(self._found[first:]))

    def begin_round(self) -> None:
        """Restart the counts of the summary, but not the stats."""
        self.recorded = self.taken_back = self.expected_of_unseen = self.dropped_new = 0
        self._p, self._churn, self._found = array("f"), array("f"), bytearray()
        self._churning.clear()
        self._bare, self._before = "", dict(self.collector.get_stats())

    def log_summary(self) -> None:
        """Log the summary of the crawl, with the updates and their expected number."""

        def stat(name: str) -> int:
            stats = (self.collector.get_stats(), self._before)
            now, before = (int(values.get(f"hacs/{name}", 0)) for values in stats)
            return now - before

        because = {why: stat(f"not_observed/{why}") for why in _NAMED}
        failed, causes = stat("not_observed") - sum(because.values()), self.causes()
        self._causes.clear()
        # a block page may show an item, or the same links on several pages
        own = " that count" * (self.watched == "item" or stat("unread_visits") > 0)
        unseen = [
            (because["nothing_shown"], "page", f"showed no {self.watched}s{own}{self._bare}"),
            (stat("gone"), "page", "answered 404 or 410"),
            (because["callback_failed"], "callback", "failed"),
            (because["unreadable"], "page", "could not be read"),
            (because["other_type"], "answer", "had another type"),
            (because["cached"], "answer", "came from the HTTP cache"),
            (failed, "request", f"failed{causes and f' ({causes})'}"),
        ]
        # rejected answers and doubtful visits have a line below
        missed = sum(number for number, _, _ in unseen) + because["rejected"] + because["doubtful"]
        phrases = [f"{counted(number, noun)} {what}" for number, noun, what in unseen if number]
        gone, new_left = stat("dropped/gone"), self.dropped_new
        never_seen = f", {new_left:,} of them for pages never seen (see HACS_DISCOVER)" * bool(
            new_left
        )
        left = stat("dropped/threshold") + stat("dropped/budget") + self.unsent
        visits, firsts = stat("visits") - stat("controls"), stat("first_visits")
        updates = stat("updates")
        new = stat("links_new_to_site" if self._counts_by_site else "new_links")
        lists = min(stat("list_updates"), updates)
        lost = min(stat("losses"), updates - lists)
        requested = f"{visits:,} of {visits + missed + left:,} requested pages"
        of_all = requested if missed + left > 0 else counted(visits, "page")
        sentences = [
            f"HACS visited {of_all}{self._news(visits, firsts, updates, new, lists, lost)}",
            f"{missed:,} were not seen" if len(phrases) > 1 else "".join(phrases),
            f"Requests left for next time: {left:,}{never_seen}" if left else "",
            counted(gone, "page is gone and waits", "pages are gone and wait") if gone else "",
        ]
        logger.info("%s.", ". ".join(filter(None, sentences)))
        if len(phrases) > 1:  # a line of their own, so that the sentence stays short
            logger.info("Not seen: %s", ", ".join(phrases))
        extras = [counted(stat(name), noun) for name, noun in self._extras.items() if stat(name)]
        if extras:
            logger.info("Not counted as visits: %s", ", ".join(extras))
        if self.doubtful:
            logger.info(
                "%s lacked a quarter or more of what the page had shown before, as a block page does: "
                "if the next visit confirms the change, that one counts; one is of %s",
                counted(len(self.doubtful), "visit"),
                next(iter(self.doubtful)),
            )
            self.doubtful.clear()
        for name, remark in _REMARKS.items():
            if number := stat(name):
                is_warning = name == "baselines" and 2 * number > visits
                log = logger.warning if is_warning else logger.info
                log("%s %s", counted(number, "visit"), remark)
        if (soon := stat("soon_again") - stat("controls")) > 0:
            logger.info(
                "%s visited again within %d s: that counts as a control visit, which takes "
                "differences for churn, not for news, so let more time pass between two runs",
                counted(soon, "page was", "pages were"),
                CHURN_SECONDS,
            )
        if self._churning:
            (example, _), *_ = self._churning.most_common(1)
            settings = {
                "link": "a higher HACS_CONTROLS shows whether they are news, HACS_LINKS_DENY",
                "item": "HACS_WATCH_IGNORE",
            }
            logger.info(
                "%s to show something else at every request, such as %s, and took %.0f %% of the "
                "visits: `hacs report` names them, %s leaves such things out",
                counted(len(self._churning), "page seems", "pages seem"),
                example or "others",
                100.0 * stat("churn/visits") / max(visits, 1),
                settings.get(self.watched, "a narrower HACS_WATCH"),
            )
        if self._rejected:
            reasons = ", ".join(f"{number} x {why}" for why, number in self._rejected.most_common())
            answers = counted(self._rejected.total(), "answer")
            logger.info("%s rejected by the project: %s", answers, reasons)
            self._rejected.clear()

    def _news(self, visits: int, firsts: int, updates: int, new: int, lists: int, lost: int) -> str:
        """Describe new marks and updates, with the expected number of updates.

        That number counts only ranked pages, so it is left out if other pages had updates, too.
        """
        if visits == firsts:
            return f", {'all ' * (visits > 1)}for the first time" if visits else ""
        known = f", {firsts:,} for the first time" * bool(firsts)
        expected = f"{self.expected_updates:.{0 if self.expected_updates >= 10 else 1}f} expected"
        if not updates:
            return f"{known}: nothing new{f' ({expected})' * bool(self.predicted)}"
        kind = "new or changed" if self.watched == "item" else "new"
        what = f"{counted(new, f'{kind} {self.watched}')} on " * bool(new)
        gained = updates - lists - lost
        phrases = {
            f"{what}{counted(gained, 'page')}{' changed' * (not new)}": gained,
            f"{self.watched}s gone from {counted(lost, 'page') if gained < 1 else lost}": lost,
            counted(lists, "changed list"): lists,
        }
        found = ", and ".join(phrase for phrase, number in phrases.items() if number)
        return f"{known}: {found}{f' ({expected})' * (self.found_updates == updates)}"

    @property
    def has_pages(self) -> bool:
        """Whether any request was for a page."""
        counts = ("hacs/dropped/", "hacs/not_observed", "hacs/ranked", "hacs/visits")
        return any(name.startswith(counts) for name in self.collector.get_stats())

    @property
    def saw_only_new_pages(self) -> bool:
        """Whether every visit was a page's first, and no known page seemed not to be shown."""
        unsure = self.get("not_observed/doubtful") + self.get("unread_visits")
        return 0 < self.get("visits") == self.get("first_visits") and not unsure

    def log_pages_known_before(self, pages: int, state_shown: str) -> None:
        """Log how many pages the state had before this crawl, which visited only new ones."""
        # failed and gone pages are added to the state, too
        added = sum(map(self.get, ("first_visits", "not_observed", "gone")))
        if (before := pages - added) > 0 and self.get("seeds") + self.get("dropped/budget"):
            return  # known pages were requested, but did not fit into the budget
        if before > 0:
            logger.info(
                "None of the %s that the state knew before was visited: unless they are another "
                "spider's, URLs change with each run, as by a session id, and HACS cannot learn",
                counted(before, "page"),
            )
        else:
            logger.info(
                "%s is a new state. If you crawled these pages before, HACS_STATE or HACS_NAMESPACE "
                "was different then%s",
                state_shown,
                ". `hacs import` adds what web archives know of them"
                * (self.watched in {"link", "thing"}),
            )

    def log_if_few_were_pages(self, pages: Pages, budget: int | None) -> None:
        """Log if HACS_PAGES takes few of the crawl's requests, or none, for pages."""
        is_none = not self.has_pages and self.not_a_page is not None
        if is_none and isinstance(pages, tuple):
            logger.warning(
                "HACS_PAGES matches none of the URLs that answered, so nothing was recorded; the "
                "first answer came from %s: does it still lead to pages?",
                self.not_a_page,
            )
        if pages != "start":
            return
        seen, of_pages = self.readable_answers, min(self.answers, self.readable_answers)
        if (is_none and seen) or (seen >= LEAST_RESPONSES and of_pages < FEW_PAGES_SHARE * seen):
            logger.info(
                "Only start requests are ranked and recorded, %d of %s%s: set HACS_PAGES = "
                '"all", or to URL patterns, to include pages that callbacks or a queue request',
                of_pages,
                counted(seen, "request"),
                f", and HACS_BUDGET = {budget} does not limit the others" * (budget is not None),
            )
