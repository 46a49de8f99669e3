"""Which hosts' answers to conditional requests can be trusted: HACS_CONDITIONAL_REQUESTS = "auto"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from hacs_crawler.exceptions import StateError
from hacs_crawler.state import Annotation, State, source_id
from hacs_crawler.utils.text import safe_logger

if TYPE_CHECKING:
    from hacs_crawler.crawl.session import Session

logger = safe_logger(__name__)

KIND: Final = "conditional"
CHECKS: Final = 3
"""So many 304s of a host are followed by a control visit, as far as there are any left."""
_VERSION: Final = 1
_CONTRADICTED: Final = 255


class Validators:
    """What control visits said of hosts' 304s: how many they confirmed, or that one was wrong."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._confirmed: dict[int, int] = {}
        self._is_checked: set[int] = set()

    async def may_be_asked(self, url: str) -> bool:
        """Whether a page's host never said of a page that had new links that it had not changed."""
        key = source_id(urlsplit(url).netloc)
        if key not in self._confirmed:
            try:
                self._confirmed[key] = await self._session.state.once(_read, key)
            except StateError:
                return False
        return self._confirmed[key] != _CONTRADICTED

    def wants_check(self, url: str) -> bool:
        """Whether a 304 of that page is to be checked: one of each host in a run, at first."""
        key = source_id(urlsplit(url).netloc)
        if self._session.allowance.most < 1 or key in self._is_checked:
            return False
        if self._confirmed.get(key, 0) >= CHECKS:
            return False
        self._is_checked.add(key)
        return True

    async def note(self, url: str, *, was_right: bool) -> None:
        """Keep what a control visit said of a 304."""
        host = urlsplit(url).netloc
        key = source_id(host)
        known = self._confirmed.get(key, 0)
        self._confirmed[key] = min(known + 1, CHECKS) if was_right else _CONTRADICTED
        if not was_right:
            logger.info(
                "%s answered that %s had not changed, which had new links: it is not asked so any more",
                host,
                url,
            )
        try:
            await self._session.state.once(_write, key, self._confirmed[key])
        except StateError as error:
            logger.warning("What 304s of %s are worth was not kept: %s", host, error)


def _read(state: State, key: int) -> int:
    body = state.store.annotations(KIND, [key]).get(key, b"")
    return body[1] if len(body) == 2 and body[0] == _VERSION else 0


def _write(state: State, key: int, confirmed: int) -> None:
    seen = state.store.annotations(KIND, [key]).get(key, b"")
    state.store.annotate(KIND, [Annotation(key, seen, bytes([_VERSION, confirmed]))])
