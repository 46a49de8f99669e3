"""Reads what a CDX server has on a site, chunk by chunk, in sizes that the server can take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hacs_crawler.harvest.asking import UnansweredError
from hacs_crawler.harvest.client import ArchiveClient
from hacs_crawler.harvest.query import IndexAnswer, Site, Span
from hacs_crawler.links import fingerprint
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

LIMIT: Final = 5_000
"""Rows a request, at first: some 1 MB, and a few seconds of the Wayback Machine's time."""
LEAST_LIMIT: Final = 50
LIMIT_WITHOUT_KEYS: Final = 50_000
"""Rows a request to a server without resume keys: what was cut off has to be asked for again."""
TRIES: Final = 16
"""How often in a row a query is made smaller before it is given up."""


class IndexReader:
    """Asks for a site's rows; remembers how many rows at once the server was able to give."""

    def __init__(self, client: ArchiveClient, site: Site) -> None:
        self._client = client
        self._site = site
        self._limit = LIMIT
        self._keys: set[int] = set()

    async def read(self, todo: Sequence[Span]) -> tuple[IndexAnswer, list[Span]]:
        """Return the next rows of the spans left to do, and what is left to do after them.

        Raises what `ArchiveClient.captures` raises, an UnansweredError after having asked for less and
        less.
        """
        failures = 0
        left = list(todo)
        self._limit = max(self._limit, LIMIT_WITHOUT_KEYS if self._client.is_keyless else 0)
        while True:
            try:
                answer = await self._client.captures(self._site, left[0], self._limit)
            except UnansweredError as error:
                failures += 1
                if not error.is_narrowable or failures > TRIES:
                    raise
                left = self._narrowed(left, failures)
                logger.info("%s; asked again for less", error)
                continue
            rest = self._rest(left, answer)
            if rest is not None:
                return answer, rest
            if self._limit >= LIMIT_WITHOUT_KEYS or (failures and left[0].halves() is not None):
                left = _halved(left)
            else:
                self._limit = LIMIT_WITHOUT_KEYS

    def _narrowed(self, left: list[Span], failures: int) -> list[Span]:
        """Halve the number of rows asked for, or the span of time.

        A server walks a whole prefix whatever the dates are (internetarchive/wayback issue 285), so
        there the number comes first.
        """
        can_shrink = self._limit > LEAST_LIMIT
        if can_shrink and (self._site.has_subpages or failures % 2):
            self._limit = max(self._limit // 2, LEAST_LIMIT)
            return left
        return _halved(left)

    def _rest(self, left: list[Span], answer: IndexAnswer) -> list[Span] | None:
        """Return what is left after an answer; None if the answer was cut off without a resume key."""
        if answer.resume_key:
            self._client.is_keyless = False
            mark = fingerprint(answer.resume_key)
            if mark not in self._keys:
                self._keys.add(mark)
                return [replace(left[0], resume_key=answer.resume_key), *left[1:]]
            logger.warning(
                "%s: the resume key %r came a second time; taken as the end of the index",
                self._site.homepage,
                answer.resume_key,
            )
        elif answer.rows >= self._limit and self._client.is_keyless is not False:
            self._client.is_keyless = True
            if self._limit < LIMIT_WITHOUT_KEYS or left[0].halves() is not None:
                return None
            logger.warning(
                "%s: more captures in one second than the archive gives", self._site.homepage
            )
        self._keys.clear()
        return left[1:]


def _halved(left: list[Span]) -> list[Span]:
    return [*(left[0].halves() or left[:1]), *left[1:]]
