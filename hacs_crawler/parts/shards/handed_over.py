"""Requests for pages that wait for the next crawl of their shard, kept in its state.

A crawl hands over the requests for pages of other shards. In a round it also keeps its own finds until
they are visited: finds of a killed crawl, or beyond the budget, are not lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Final, NamedTuple

from hacs_crawler.config import Config
from hacs_crawler.crawl.recipes import RequestRecipe, handed_over_kind, read_recipes, write_recipes
from hacs_crawler.state import (
    PAGES_A_CALL,
    Page,
    Shard,
    State,
    change_annotations,
    open_state,
    shard_of_page,
)

_WAITS: Final = b"1"


class WaitingPage(NamedTuple):
    """A page, and how the spider requests it (None: it cannot be requested again)."""

    url: str
    recipe: RequestRecipe | None


def hand_over(
    config: Config, count: int, spider: str, pages: Mapping[int, WaitingPage]
) -> set[int]:
    """Write requests, by page id, into the states of their shards; return the shards with new ones.

    Writing twice is safe: existing entries stay. Raises StateError.
    """
    by_shard = defaultdict[int, list[int]](list)
    for page_id, page in pages.items():
        by_shard[shard_of_page(page.url, count)].append(page_id)
    given = set[int]()
    for number, ids in by_shard.items():
        theirs = replace(config, shard=Shard(number, count))
        with closing(open_state(*theirs.state_arguments)) as state:
            for start in range(0, len(ids), PAGES_A_CALL):
                some = {page_id: pages[page_id] for page_id in ids[start : start + PAGES_A_CALL]}
                state.restore(Page(page.url) for page in some.values())
                recipes = {
                    key: page.recipe for key, page in some.items() if page.recipe is not None
                }
                recipes_before = read_recipes(state, spider, list(recipes))
                new = {key: recipes[key] for key in recipes.keys() - recipes_before}
                names = {name for page in new.values() for name in (page.callback, page.errback)}
                write_recipes(state, spider, new, names)
                kind = handed_over_kind(spider)
                if change_annotations(state.store, kind, recipes, lambda *_: _WAITS):
                    given.add(number)
    return given


def forget(state: State, spider: str, page_ids: Collection[int]) -> None:
    """Forget requests that were made; raises StateError."""
    change_annotations(state.store, handed_over_kind(spider), page_ids, lambda *_: b"")
