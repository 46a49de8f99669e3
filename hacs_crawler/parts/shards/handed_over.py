"""Requests that wait in the state of a shard for its next crawl.

A crawl hands over requests for pages of other shards. In a round, it also keeps its own follow-up
requests until they are visited, so that a kill or an exhausted budget does not lose them.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import replace
from itertools import compress
from typing import Final, NamedTuple

import numpy as np

from hacs_crawler.config import Config
from hacs_crawler.crawl.recipes import RequestRecipe, handed_over_kind, read_recipes, write_recipes
from hacs_crawler.state import (
    PAGES_A_CALL,
    Page,
    Shard,
    change_annotations,
    open_state,
    shard_of_page,
)

_WAITS: Final = b"1"


class WaitingPage(NamedTuple):
    """A page, and its recipe (None: it cannot be requested again)."""

    url: str
    recipe: RequestRecipe | None


def hand_over(
    config: Config,
    spider: str,
    pages: Mapping[int, WaitingPage],
    made: Collection[int],
    began: float,
) -> set[int]:
    """Write requests, by page id, into the states of their shards; forget the `made` ones of this shard.

    Pages visited since second `began` are left out. Returns which other shards got new requests,
    except for pages with failed attempts: these would be handed over again by every crawl of a
    round. Writing twice is safe: existing entries stay. Raises StateError.
    """
    assert config.shard is not None  # noqa: S101 - the part is off without
    own, kind = config.shard, handed_over_kind(spider)
    by_shard = defaultdict[Shard, list[int]](list, {own: []} if made else {})
    for page_id, page in pages.items():
        by_shard[replace(own, index=shard_of_page(page.url, own.count))].append(page_id)
    given = set[int]()
    for shard, ids in by_shard.items():
        with closing(open_state(*replace(config, shard=shard).state_arguments)) as state:
            for start in range(0, len(ids), PAGES_A_CALL):
                batch = ids[start : start + PAGES_A_CALL]
                rows = state.rows(np.array(batch, np.int64))
                is_left = (rows["last_visit"] < began).tolist()
                some = {page_id: pages[page_id] for page_id in compress(batch, is_left)}
                failing = {*compress(batch, rows["failures"].tolist())}
                state.restore(Page(page.url) for page in some.values())
                recipes = {
                    key: page.recipe for key, page in some.items() if page.recipe is not None
                }
                recipes_before = read_recipes(state, spider, list(recipes))
                new = {key: recipes[key] for key in recipes.keys() - recipes_before}
                names = {name for page in new.values() for name in (page.callback, page.errback)}
                write_recipes(state, spider, new, names)
                marked = change_annotations(state.store, kind, recipes, lambda *_: _WAITS)
                if marked - failing:
                    given.add(shard.index)
            if shard == own:
                change_annotations(state.store, kind, made, lambda *_: b"")
    return given - {own.index}
