"""Revisits: a crawl begins with the best of the pages it knows, asked for as they were before."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from scrapy import Request, Spider
from scrapy.crawler import Crawler

from hacs_crawler.config import Config
from hacs_crawler.crawl.asked import (
    Asked,
    asked_pages,
    forget_asked,
    read_asked,
    request_of,
    used_callbacks,
)
from hacs_crawler.crawl.session import Session
from hacs_crawler.exceptions import StateError
from hacs_crawler.ranking.plan import plan_of
from hacs_crawler.state import PAGES_A_CALL, State, without_future
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

SPARE: Final = 100
"""So many more pages are looked at than wanted, for those that can no longer be asked for."""


@dataclass(slots=True)
class Choice:
    """Which pages are to be visited again, best first, and which no longer can be."""

    requests: list[Request] = field(default_factory=list)
    behind_form: int = 0
    """How many were passed over because a form was posted on the way to them."""
    damaged: int = 0
    """Of how many the record of how they were asked for is damaged."""
    gone: list[tuple[int, str]] = field(default_factory=list)
    """Ids and callbacks of pages whose callback the spider no longer has."""


class Revisits:
    """The revisits of one crawl, which are ranked together with its start requests."""

    def __init__(self, crawler: Crawler, session: Session) -> None:
        self._crawler = crawler
        self._session = session

    async def requests(self) -> AsyncIterator[Request]:
        """Yield the requests for known pages that a crawl begins with; a failure ends the crawl."""
        session, spider = self._session, self._crawler.spider
        config = session.config
        if config is None or config.revisit is None or spider is None or not session.is_open:
            return
        if session.ranker is not None:
            session.ranker.watch.is_reading = True
        try:
            if session.sources is not None:
                sites = await session.state.patiently(_sites, spider.name)
                await session.sources.listen_to_known(sites)
            choice = await session.state.patiently(_chosen, config, spider, session.clock())
        except StateError as error:
            session.fail(str(error))
            return
        finally:
            if session.ranker is not None:
                session.ranker.watch.is_reading = False
        _say_gone(choice, spider)
        if choice.damaged:
            logger.warning(
                "damaged: %s of how pages are asked for; these pages are visited, and their records "
                "mended, when the spider comes across them",
                counted(choice.damaged, "record"),
            )
        if choice.behind_form:
            logger.info(
                "%d known pages were first reached after a form was posted and are not visited again",
                choice.behind_form,
            )
        session.stats.count("revisits", len(choice.requests))
        for request in choice.requests:
            yield request


def _sites(state: State, spider_name: str) -> set[int]:
    """Return the sites of the pages that a spider has asked for."""
    rows = state.rows(asked_pages(state, spider_name))
    return set(np.unique(rows["site"]).tolist())


def _most(config: Config) -> int:
    number = config.ranking.budget if config.revisit == "budget" else config.revisit
    assert isinstance(number, int)  # noqa: S101 - checked with the settings
    return number


def _chosen(state: State, config: Config, spider: Spider, now: float) -> Choice:
    """Return the best pages of those that the spider has asked for."""
    number = _most(config)
    page_ids = asked_pages(state, spider.name)
    rows, _ = without_future(state, page_ids, state.rows(page_ids), now)
    is_known = rows["visits"] > 0
    page_ids, rows = page_ids[is_known], rows[is_known]
    callbacks = used_callbacks(state, spider.name)
    options = replace(config.ranking, budget=None)
    choice, limit = Choice(), number + SPARE
    while True:
        plan = plan_of(page_ids, rows, state, options, now, limit)
        choice = Choice()
        for start in range(0, len(plan), PAGES_A_CALL):
            ids = plan.page_ids[start : start + PAGES_A_CALL].tolist()
            asked = read_asked(state, spider.name, ids)
            for page_id, how in ((one, asked.get(one)) for one in ids):
                if len(choice.requests) >= number:
                    break
                if how is None:
                    choice.damaged += 1
                elif how.after_form:
                    choice.behind_form += 1
                else:
                    _choose(choice, page_id, how, callbacks, spider)
        if len(choice.requests) >= number or len(plan) < limit:
            break
        limit *= 4
    forget_asked(state, spider.name, [page_id for page_id, _ in choice.gone])
    return choice


def _choose(
    choice: Choice, page_id: int, asked: Asked, callbacks: frozenset[str], spider: Spider
) -> None:
    is_used = {asked.callback, asked.errback} <= callbacks
    request = request_of(asked, spider) if is_used else None
    if request is None:
        choice.gone.append((page_id, asked.callback))
    else:
        choice.requests.append(request)


def _say_gone(choice: Choice, spider: Spider) -> None:
    if choice.gone:
        names = sorted({name or "parse" for _, name in choice.gone})
        logger.warning(
            "%d known pages are not visited again: they were asked for with callbacks, or rules, that "
            "the spider %s no longer has (%s); they are visited when it comes across them",
            len(choice.gone),
            spider.name,
            ", ".join(names),
        )
