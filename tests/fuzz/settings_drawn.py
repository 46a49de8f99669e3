"""Settings of a scenario: any of those that are declared, and some of Scrapy's own."""

from __future__ import annotations

import random
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import Meta

from hacs_crawler.config import SETTINGS

SET_BY_THE_JUDGE = {
    "HACS_STATE",
    "HACS_NAMESPACE",
    "HACS_CLOCK",
    "HACS_ARCHIVES",  # the spider `wayback` alone asks them
    "HACS_SHARD",
    "HACS_SHARDS",
    "HACS_SHARD_WAIT",
    "HACS_INNER_SCHEDULER",
    "HACS_ROUND_MINUTES",  # of crawls that do not end
    "HACS_METRICS",  # a port
}
"""Settings that are not drawn."""
VALUES: dict[str, list[Any]] = {
    "HACS_BUDGET": [1, 2, 3, 5, 8, 20],
    "HACS_EXPERIMENT": [{"hacs": 0.5, "random": 0.5}, {"last-obs": 0.7, "brute-force": 0.3}],
    "HACS_FADE_DAYS": [1.0, 365.0],
    "HACS_FLUSH_VISITS": [1, 2, 100],
    "HACS_INSTANT": [{"list": "instant.txt", "minutes": 5}],
    "HACS_LINKS_ALLOW": [[r"/p\d"]],
    "HACS_LINKS_DENY": [["/p[2-4]"], ["sid="]],
    "HACS_PAGES": ["start", "all", "all", ["/p[0-5]"]],
    "HACS_PARTS": [{"fuzz.parts.Raises": 500}, {"fuzz.parts.ReturnsRubbish": 500}],
    "HACS_REVISIT": [0, 2, 5, "budget"],
    "HACS_SIGNALS": [0, 1, 30],
}
"""Values of settings whose type does not tell them, or not well."""
SCRAPYS: dict[str, list[Any]] = {
    "AUTOTHROTTLE_ENABLED": [True],
    "CONCURRENT_REQUESTS": [1, 2],
    "CONCURRENT_REQUESTS_PER_DOMAIN": [1, 1, 3],
    "COOKIES_ENABLED": [False],
    "DOWNLOAD_DELAY": [0.001, 0.2],
    "METAREFRESH_ENABLED": [False],
    "REDIRECT_ENABLED": [False],
    "RETRY_ENABLED": [False],
    "RETRY_TIMES": [0, 1, 4],
    "ROBOTSTXT_OBEY": [True],
    "SCHEDULER_START_DISK_QUEUE": ["scrapy.squeues.PickleFifoDiskQueue"],
}


FITTING = {
    "busy": "HACS_RETRY_AFTER",
    "closed": "HACS_RETRY_AFTER",
    "etag": "HACS_CONDITIONAL_REQUESTS",
    "feed": "HACS_SIGNALS",
    "plain": "HACS_BUDGET",
    "script": "HACS_RENDER",
    "unavailable": "HACS_RETRY_AFTER",
    "wrong-etag": "HACS_CONDITIONAL_REQUESTS",
}
"""Settings that do something with a kind of page: they are drawn more often where there is one."""


def draw_settings(rng: random.Random, kinds: set[str]) -> dict[str, Any]:
    """Some settings, and among them often what does something with the kinds of pages there are."""
    names = [name for name in SETTINGS if name not in SET_BY_THE_JUDGE and values_of(name)]
    chosen = set(rng.sample(names, min(len(names), rng.choice((0, 1, 2, 4, 8)))))
    chosen |= {FITTING[kind] for kind in sorted(kinds & FITTING.keys()) if rng.random() < 0.4}
    drawn = {name: rng.choice(values_of(name)) for name in sorted(chosen)}
    scrapys = set(rng.sample(list(SCRAPYS), rng.choice((0, 1, 3))))
    if rng.random() < 0.3:  # requests wait in the downloader
        scrapys.add("CONCURRENT_REQUESTS_PER_DOMAIN")
    return drawn | {name: rng.choice(SCRAPYS[name]) for name in sorted(scrapys)}


def values_of(name: str) -> list[Any]:
    """Values to draw of a setting; none where it takes a line in VALUES to know them."""
    return VALUES.get(name) or _of_type(SETTINGS[name].kind)


def _of_type(kind: Any) -> list[Any]:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        limits = [one for one in kind.__metadata__ if isinstance(one, Meta)]
        return [
            one for one in _of_type(arguments[0]) if all(_is_within(one, limit) for limit in limits)
        ]
    if origin in {Union, UnionType}:
        return [one for part in arguments if part is not NoneType for one in _of_type(part)]
    if origin is Literal:
        return list(arguments)
    if kind is bool:
        return [True, False]
    return {int: [0, 1, 2, 5], float: [0.0, 0.02, 0.2, 0.5, 1.0]}.get(kind, [])


def _is_within(value: Any, limit: Meta) -> bool:
    return not (
        (limit.ge is not None and value < limit.ge)
        or (limit.gt is not None and value <= limit.gt)
        or (limit.le is not None and value > limit.le)
    )
