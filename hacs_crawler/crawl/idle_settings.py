"""Finds settings without effect, beside others or on the pages of a crawl, and unknown arguments."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from difflib import get_close_matches
from itertools import islice
from typing import Final

from scrapy import Spider
from scrapy.settings import BaseSettings

from hacs_crawler.config import MISSPELLED, SETTINGS, Config
from hacs_crawler.crawl.state_access.write_behind import OpenState
from hacs_crawler.crawl.stats import CrawlStats
from hacs_crawler.exceptions import StateError
from hacs_crawler.ranking.demands import demands_of
from hacs_crawler.ranking.policies import POLICIES
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

# How many known pages are compared with the patterns of settings that matched none of a run.
MOST_URLS: Final = 10_000
# A policy of the user's may read HACS_STALE_DAYS.
_WITHOUT_STALE_DAYS: Final = [policy for policy in POLICIES.values() if not policy.is_by_p]
# Settings that may leave others without effect: when, and which others.
_CAUSES: Final[tuple[tuple[str, Callable[[Config], bool], str], ...]] = (
    ("HACS_BUDGET", lambda on: on.ranking.budget is None, "CONTROLS DISCOVER"),
    ("HACS_WATCH", lambda on: on.takes_items, "CONTROLS"),
    ("HACS_WATCH", lambda on: on.watch is not None, "LINKS LINKS_ALLOW LINKS_DENY"),
    ("HACS_POLICY", lambda on: not on.ranking.policy.uses_rate, "CONTROLS WEIGHTS"),
    ("HACS_POLICY", lambda on: not on.ranking.policy.uses_threshold, "THRESHOLD"),
    ("HACS_POLICY", lambda on: on.ranking.policy in _WITHOUT_STALE_DAYS, "STALE_DAYS"),
    ("HACS_ESTIMATOR", lambda on: not on.estimation.has_posterior, "CONTROLS FADE_DAYS"),
    ("HACS_PAGES", lambda on: not on.repeats_requests, "DISCOVER"),
    ("HACS_REVISIT", lambda on: not on.repeats_requests, "DISCOVER"),
    ("HACS_ELAPSED_FROM", lambda on: not on.ranking.counts_siblings, "SIBLINGS"),
)


def warn_of_idle(settings: BaseSettings, config: Config) -> None:
    """Log a warning for each setting of the user's that has no effect beside the others."""
    idle: dict[str, list[str]] = {}
    for cause, holds, others in _CAUSES:
        given = settings.get(cause, SETTINGS[cause].default)
        why = f"without {cause}" if given in (None, "") else f"with {cause} = {given!r}"
        for name in map("HACS_{}".format, others.split() if holds(config) else ()):
            # 0, False or nothing asks for no effect
            if settings.getpriority(name) and SETTINGS[name].value(settings):
                idle.setdefault(name, []).append(why)
    for name, reasons in idle.items():
        logger.warning("%s = %r has no effect %s", name, settings[name], " and ".join(reasons))


def unknown_argument(spider: Spider, ours: type[Spider], given: Iterable[str]) -> str:
    """Return the fault in arguments that `ours`, the spider's class or a base of it, has no name for.

    A subclass may have arguments of its own, unless it has no such attribute and they resemble ours.
    """
    known = [*(ours.__init__.__kwdefaults__ or ())]
    for name in given:
        similar = get_close_matches(name, known, 1, 0.6 if type(spider) is ours else MISSPELLED)
        # Scrapyd adds _job
        is_allowed = name.startswith("_") or hasattr(type(spider), name)
        if not is_allowed and (similar or type(spider) is ours):
            hint = f"; did you mean {similar[0]}?" if similar else f": it has {', '.join(known)}"
            return f"{spider.name} has no argument {name}{hint}"
    return ""


async def log_unmatched(config: Config, stats: CrawlStats, state: OpenState) -> None:
    """Log patterns in settings that match no known page, such as another spider's, or no link."""
    links, ranking = config.link_rules, config.ranking
    is_first_run = stats.get("first_visits") + stats.get("baselines")
    pages = config.pages if is_first_run and isinstance(config.pages, tuple) else ()
    weighted, spaced = ([rule for rule, _ in some] for some in (ranking.weights, ranking.every))
    of_pages = {"HACS_WEIGHTS": weighted, "HACS_EVERY": spaced, "HACS_PAGES": pages}
    matched, kind = stats.matched | links.matched, "page of this run"
    if any(rule.pattern not in matched for rules in of_pages.values() for rule in rules):
        with suppress(StateError):  # only these log lines need it
            urls = await state.once(lambda opened: [*islice(opened.urls(), MOST_URLS)])
            matched |= {rule.pattern for rule in pages if any(map(rule.search, urls))}
            matched |= demands_of(urls, ranking.weights, ranking.every)[1]
            kind = "known page" if len(urls) < MOST_URLS else kind
    # without a budget or threshold, requests from callbacks are not ranked
    is_ranked = stats.get("seeds") >= max(1, stats.get("visits") - stats.get("controls"))
    if kind != "known page" and not is_ranked:
        of_pages = {"HACS_PAGES": pages}
    # later runs do not read the links of unchanged pages
    is_read = is_first_run and config.watch is None
    if config.watch is None and (by := links.narrowed_by) and stats.linkless and not stats.linked:
        is_read, names = False, " with ".join(by)
        logger.warning("%s leaves no link on any page of this run (%d)", names, stats.linkless)
    of_links = {"HACS_LINKS_ALLOW": links.allow, "HACS_LINKS_DENY": links.deny} if is_read else {}
    no_page = f"{kind}, or an earlier pattern matches first"
    for patterns, what in ((of_pages, no_page), (of_links, "link")):
        for name, rules in patterns.items():
            if unmatched := {rule.pattern for rule in rules} - matched:
                named = ", ".join(map(repr, sorted(unmatched)))
                logger.warning("%s: %s matches no %s", name, named, what)
