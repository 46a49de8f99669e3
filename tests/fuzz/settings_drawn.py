"""Settings of a scenario: any of those that are declared, and some of Scrapy's own."""

import random
from typing import Any

from hacs_crawler.model import ESTIMATORS
from hacs_crawler.ranking.policies import POLICIES

SET_BY_THE_JUDGE = {
    "HACS_STATE",
    "HACS_NAMESPACE",
    "HACS_CLOCK",
    "HACS_ARCHIVES",  # the spider `wayback` alone asks them
    "HACS_SHARD",
    "HACS_INNER_SCHEDULER",
    "HACS_METRICS",  # a port
    "HACS_SPIDERS",
}
"""Settings that are not drawn."""
SHARES = [0.0, 0.02, 0.2, 0.5]
VALUES: dict[str, list[Any]] = {
    "HACS_BUDGET": [1, 2, 3, 5, 8, 20],
    "HACS_CONDITIONAL_REQUESTS": [True, False, "auto"],
    "HACS_CONTROLS": SHARES,
    "HACS_DISCOVER": [*SHARES, 1.0],
    "HACS_ELAPSED_FROM": ["visit", "update"],
    "HACS_ESTIMATOR": [*ESTIMATORS],
    "HACS_EVERY": [{"/p[0-3]": [None, 2]}],
    "HACS_FADE_DAYS": [1.0, 365.0],
    "HACS_FINDINGS": [0, 3],
    "HACS_FLUSH_VISITS": [1, 2, 100],
    "HACS_INSTANT": [{"list": "instant.txt", "minutes": 5}],
    "HACS_LINKS": ["all", "same-site"],
    "HACS_LINKS_ALLOW": [[r"/p\d"]],
    "HACS_LINKS_DENY": [["/p[2-4]"], ["sid="]],
    "HACS_PAGES": ["start", "all", "all", ["/p[0-5]"]],
    "HACS_PARTS": [{"fuzz.parts.Raises": 500}, {"fuzz.parts.ReturnsRubbish": 500}],
    "HACS_POLICY": [*POLICIES],
    "HACS_STALE_DAYS": [100, 365],
    "HACS_RENDER": ["never", "auto", "always"],
    "HACS_RETRY_AFTER": [True, False],
    "HACS_REVISIT": [0, 2, 5, "budget"],
    "HACS_SIBLINGS": [True, False],
    "HACS_SIGNALS": [0, 1, 30],
    "HACS_THRESHOLD": [*SHARES, 1.0],
    "HACS_UPDATES": ["page", "site", "change", "any-change"],
    "HACS_WATCH": ["items", "text", "css:a::text", "xpath://p", "jmespath:json"],
    "HACS_WATCH_FIELDS": [["url"]],
    "HACS_WATCH_IGNORE": [["status"]],
    "HACS_WATCH_KEY": ["url", "id"],
    "HACS_WEIGHTS": [{"/p[0-3]": 3, "/p": 0.5}],
}
CLOSING: dict[str, list[Any]] = {
    "CLOSESPIDER_ERRORCOUNT": [1],
    "CLOSESPIDER_ITEMCOUNT": [1, 2, 5],
    "CLOSESPIDER_PAGECOUNT": [1, 3],
    "CLOSESPIDER_PAGECOUNT_NO_ITEM": [2],
    "CLOSESPIDER_TIMEOUT": [0.1, 5],
    "CLOSESPIDER_TIMEOUT_NO_ITEM": [1],
}
"""With which a crawl may end early, at any moment."""
SCRAPYS: dict[str, list[Any]] = {
    "AUTOTHROTTLE_ENABLED": [True],
    "CONCURRENT_REQUESTS": [1, 2],
    "CONCURRENT_REQUESTS_PER_DOMAIN": [3],
    "COOKIES_ENABLED": [False],
    "DOWNLOAD_DELAY": [0.001, 0.2],
    "METAREFRESH_ENABLED": [False],
    "REDIRECT_ENABLED": [False],
    "RETRY_ENABLED": [False],
    "RETRY_TIMES": [0, 1, 4],
    "ROBOTSTXT_OBEY": [True],
    **CLOSING,
    "SCHEDULER_START_DISK_QUEUE": ["scrapy.squeues.PickleFifoDiskQueue"],
}
WAITING: list[dict[str, list[Any]]] = [
    {"CONCURRENT_REQUESTS_PER_DOMAIN": [1]},
    {"DOWNLOAD_DELAY": [1.0]},
]
"""With which requests wait in the downloader."""
PAUSES = {"HACS_RETRY_AFTER": [True]}
FITTING: dict[str, dict[str, list[Any]]] = {
    "busy": PAUSES,
    "closed": PAUSES,
    "closed to some": {"ROBOTSTXT_OBEY": [True]},
    "etag": {"HACS_CONDITIONAL_REQUESTS": [True, "auto"]},
    "feed": {"HACS_SIGNALS": [1, 30]},
    "names a sitemap": {"ROBOTSTXT_OBEY": [True]},
    "plain": {"HACS_BUDGET": VALUES["HACS_BUDGET"]},
    "script": {"HACS_RENDER": ["auto", "always"]},
    "throttled": PAUSES,
    "unavailable": PAUSES,
    "wrong-etag": {"HACS_CONDITIONAL_REQUESTS": [True, "auto"]},
}
"""Settings that do something with a kind of page or robots.txt: drawn more often where there is one."""


def draw_settings(rng: random.Random, kinds: set[str]) -> dict[str, Any]:
    """Some settings, and among them often what does something with the kinds of things there are."""
    drawn = {name: VALUES[name] for name in rng.sample([*VALUES], rng.choice((0, 1, 2, 4, 8)))}
    drawn |= {name: SCRAPYS[name] for name in rng.sample([*SCRAPYS], rng.choice((0, 1, 3)))}
    for kind in sorted(kinds & FITTING.keys()):
        drawn |= FITTING[kind] if rng.random() < 0.5 else {}
    drawn |= rng.choice(WAITING) if rng.random() < 0.5 else {}
    if any(name == "HACS_UPDATES" or name.startswith("HACS_WATCH_") for name in drawn):
        drawn["HACS_WATCH"] = ["items"]  # without which most of their values are refused
    return {name: rng.choice(values) for name, values in sorted(drawn.items())}
