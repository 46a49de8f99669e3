"""Calls the parts of a crawl, in order, and contains their failures."""

from collections import Counter
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import AsyncExitStack
from functools import partial
from inspect import iscoroutinefunction, isfunction
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from scrapy import Request
from scrapy.http import Response
from scrapy.utils.misc import load_object

from hacs_crawler.crawl.meta import mark_unseen
from hacs_crawler.crawl.part import Observed, Part
from hacs_crawler.crawl.stats import CrawlStats
from hacs_crawler.exceptions import ConfigError, StateError
from hacs_crawler.ranking.choice import Quota
from hacs_crawler.state import Page, Visit
from hacs_crawler.utils.loop import begin, wait_for
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.watch import Rules

logger = safe_logger(__name__)

# After this many consecutive failures a part is switched off for the rest of the run.
MOST_FAILURES: Final = 10
# How long ranking waits for a part; data that arrive later count in the next round.
WAIT_SECONDS: Final = 60.0
HOOKS: Final = tuple(
    name for name, hook in vars(Part).items() if isfunction(hook) and name[0] != "_"
)
T = TypeVar("T")
P = TypeVar("P", bound=Part)
# The arguments of a hook.
H = ParamSpec("H")


class Parts:
    """Calls the hooks that parts override; `fail` ends the crawl with a message."""

    def __init__(
        self, parts: Iterable[Part], stats: CrawlStats, fail: Callable[[str], None]
    ) -> None:
        self._stats = stats
        self._fail = fail
        self._failures: Counter[Part] = Counter()
        self._said: set[Part] = set()
        self._held = AsyncExitStack()
        self._own = list(parts)
        # Keys of `meta` that requests inherit from the request whose callback yields them.
        self.inherited = tuple(key for part in self._own for key in part.inherited)
        self.begin_round()

    def begin_round(self) -> None:
        """Collect the hooks to call in this round: overridden, and not `unneeded`."""
        self._hooks = {
            name: [
                (part, getattr(part, name))
                for part in self._own
                if getattr(type(part), name) is not getattr(Part, name)
                and name not in part.unneeded
            ]
            for name in HOOKS
        }

    async def enter(self) -> None:
        """Enter the parts' contexts (`Part.held`); raises ConfigError and StateError."""
        for part, hook in self._hooks["held"]:
            await self._awaited(part, lambda own: self._held.enter_async_context(own()), hook)

    async def leave(self) -> None:
        """Leave the parts' contexts."""
        left = begin(self._held.aclose())
        left.addErrback(lambda failure: logger.warning("A part ended badly: %s", failure.value))
        await wait_for(left, WAIT_SECONDS)

    def of(self, kind: type[P]) -> P | None:
        """Return the part of a class, None if it is off."""
        return next((part for part in self._own if isinstance(part, kind)), None)

    def override(self, hook: str) -> bool:
        """Whether any part overrides a hook; if none does, callers need not gather data for it."""
        return bool(self._hooks[hook])

    def observed(self, observed: Observed) -> Iterator[Visit]:
        """Yield the visits of other pages that a response implies."""
        for part, hook in self._hooks["observed"]:
            if visits := self._call(part, hook, observed):  # none of most pages
                yield from self._call(part, _visits, visits) or ()

    def items_before(self, page_url: str, response: Response) -> Mapping[int, Mapping[str, Any]]:
        """Return the fields of a page's items at its last visit, by their keys."""
        for part, hook in self._hooks["items_before"]:
            if items := self._call(part, lambda of: _checked(of(page_url, response), dict), hook):
                return items
        return {}

    def doubts(self, page: Page, item: Any, marks: frozenset[int]) -> bool:
        """Whether a part concludes from an item that a known page was not read correctly."""
        hooks = self._hooks["doubts"]
        return any(self._call(part, hook, page, item, marks) is True for part, hook in hooks)

    def quota(self, quota: Quota) -> Quota:
        """Return how many visits a round may make."""
        for part, hook in self._hooks["quota"]:
            changed = self._call(part, hook, quota)
            quota = changed if isinstance(changed, Quota) else quota
        return quota

    def takes(self, page_url: str, request: Request | None = None) -> bool:
        """Return whether this crawl may visit a page."""
        return all(
            self._call(part, partial(hook, page_url, request)) is not False
            for part, hook in self._hooks["takes"]
        )

    def admit(self, request: Request) -> float:
        """Return how many seconds a request has to wait: the maximum over all parts."""
        # hide the request from `_on_failure`: without a required part's answer, nothing may be sent
        waits = (self._call(part, partial(hook, request)) for part, hook in self._hooks["admit"])
        return max((seconds for seconds in waits if isinstance(seconds, float)), default=0.0)

    def rules(self, response: Response, rules: Rules, page: Page | None = None) -> Rules:
        """Return the rules for reading a response."""
        for part, hook in self._hooks["rules"]:
            changed = self._call(part, hook, response, rules, page)
            rules = changed if isinstance(changed, Rules) else rules
        return rules

    def busy(self) -> bool:
        """Whether the spider has to stay open."""
        return any(self._call(part, hook) is True for part, hook in self._hooks["busy"])

    def before_request(
        self, request: Request, page_url: str | None
    ) -> Coroutine[Any, Any, None] | None:
        """Let parts change a request before it is downloaded; returns a coroutine to await, if any."""
        waits = []
        for part, hook in self._hooks["before_request"]:
            if iscoroutinefunction(hook):
                waits.append((part, hook))
            else:
                self._call(part, hook, request, page_url)
        return self._all(waits, request, page_url) if waits else None

    async def answered(self, request: Request, response: Response, page_url: str) -> Response:
        """Return the answer to a page's request, or a part's replacement for it."""
        for part, hook in self._hooks["answered"]:
            answer = await self._guarded(part, hook, request, response, page_url)
            response = answer if isinstance(answer, Response) else response
        return response

    def failed(self, request: Request, error: Exception, page_url: str) -> Request | None:
        """Return the request that a part sends in place of a failed request."""
        for part, hook in self._hooks["failed"]:
            instead = self._call(part, hook, request, error, page_url)
            if isinstance(instead, Request):
                return instead
        return None

    async def start_requests(self) -> AsyncIterator[Request]:
        """Yield the requests that parts add to the start requests; StateError ends the crawl."""
        for part, hook in self._hooks["start_requests"]:
            try:
                async for request in hook():
                    yield _checked(request, Request)
            except StateError as error:
                self._fail(str(error))
            except Exception as error:  # noqa: BLE001 - a part may be the user's own code
                self._on_failure(part, error, ())

    def tell(
        self, hook: Callable[Concatenate[Any, H], object], *given: H.args, **also: H.kwargs
    ) -> None:
        """Call a hook that returns nothing, of all parts."""
        for part, own in self._hooks[hook.__name__]:
            self._call(part, own, *given, **also)

    async def each(
        self, hook: Callable[Concatenate[Any, H], Awaitable[None]], *given: H.args, **also: H.kwargs
    ) -> None:
        """Await a hook of all parts; raises ConfigError and StateError, which end the crawl."""
        for part, own in self._hooks[hook.__name__]:
            await self._awaited(part, own, *given, **also)

    async def wait(
        self, hook: Callable[Concatenate[Any, H], Awaitable[None]], *given: H.args, **also: H.kwargs
    ) -> None:
        """Await a hook of all parts, each for a limited time."""
        for part, own in self._hooks[hook.__name__]:
            await self._wait(part, own, *given, **also)

    async def _all(self, hooks: Iterable[tuple[Part, Any]], *given: Any) -> None:
        for part, hook in hooks:
            await self._wait(part, hook, *given)

    def _call(self, part: Part, hook: Callable[..., T], *given: Any, **also: Any) -> T | None:
        try:
            result = hook(*given, **also)
        except Exception as error:  # noqa: BLE001 - a part may be the user's own code
            self._on_failure(part, error, given)
            return None
        if self._failures:
            self._failures.pop(part, None)
        return result

    async def _wait(
        self, part: Part, hook: Callable[..., Awaitable[None]], *given: Any, **also: Any
    ) -> None:
        done = begin(self._guarded(part, hook, *given, **also))
        await wait_for(done, WAIT_SECONDS)
        if not done.called:
            self._on_failure(part, TimeoutError(f"not done after {WAIT_SECONDS:g} s"), given)

    async def _guarded(
        self, part: Part, hook: Callable[..., Awaitable[T]], *given: Any, **also: Any
    ) -> T | None:
        try:
            return await self._awaited(part, hook, *given, **also)
        except (ConfigError, StateError) as error:
            self._on_failure(part, error, given)
            return None

    async def _awaited(
        self, part: Part, hook: Callable[..., Awaitable[T]], *given: Any, **also: Any
    ) -> T | None:
        try:
            result = await hook(*given, **also)
        except (ConfigError, StateError):
            raise
        except Exception as error:  # noqa: BLE001 - a part may be the user's own code
            self._on_failure(part, error, given)
            return None
        self._failures.pop(part, None)
        return result

    def _on_failure(self, part: Part, error: Exception, given: tuple[Any, ...]) -> None:
        name = type(part).__name__
        self._stats.count(f"parts/failed/{name}")
        self._failures[part] += 1
        problem = f"{type(error).__name__}: {error}"
        is_last = self._failures[part] == MOST_FAILURES
        request = next((each for each in given if isinstance(each, Request)), None)
        if part.required and request is not None:
            mark_unseen(request, "part_failed")
        if part.required and (request is None or is_last):
            self._fail(f"{name}, which this crawl cannot do without, failed: {problem}")
        elif part not in self._said:
            self._said.add(part)
            logger.warning("The part %s failed; the crawl goes on: %s", name, problem)
            logger.debug("%s", name, exc_info=error)
        if is_last:
            logger.warning(
                "The part %s failed %d times in a row: it is switched off", name, MOST_FAILURES
            )
            self._own = [other for other in self._own if other is not part]
            self.begin_round()


def load_parts(paths: Iterable[str | type[Part]], crawl: object) -> list[Part]:
    """Return the parts of a crawl that are on; raises ConfigError if one cannot be loaded."""
    parts = list[Part]()
    for path in paths:
        try:
            part = load_object(path).from_crawl(crawl)
            if part is not None:
                parts.append(_checked(part, Part))
        except ConfigError:
            raise
        except Exception as error:
            msg = f"HACS_PARTS names {path}: {type(error).__name__}: {error}"
            raise ConfigError(msg) from error
    return parts


def _visits(values: Iterable[object]) -> list[Visit]:
    return [_checked(value, Visit) for value in values]


def _checked(value: object, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is not a {kind.__name__}")
    return value
