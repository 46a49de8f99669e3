"""How a page was asked for, so that it can be asked for again without what led to it.

Kept is what the spider said: callback and errback by name, `cb_kwargs`, headers, and of `meta` what JSON
can hold. Nothing that says who asked is kept: no login, no cookie, no proxy.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct, field
from scrapy import Request, Spider
from scrapy.spiders import CrawlSpider

from hacs_crawler.links import check_url, without_login
from hacs_crawler.state import Annotation, Ids, State, change_annotations, change_note, read_note

VERSION: Final = 1
MOST_BYTES: Final = 4096
"""What is kept of one page at most, packed; what would take more is not asked for again."""
MOST_UNPACKED: Final = 65_536
_SECRET = re.compile(
    r"auth|cookie|passw|proxy|secret|session|token|api.?key|credential", re.IGNORECASE
)
_OF_TRANSFER = ("content-", "if-", "host", "connection", "transfer-encoding")
_OF_SCRAPY = (
    "_",
    "depth",
    "download_",
    "hacs",
    "is_start_request",
    "redirect_",
    "retry_times",
    "max_retry",
)
RULES_CALLBACK: Final = "_callback"
"""What rules of a `CrawlSpider` have as callback: it calls theirs."""
_OF_CRAWL_SPIDER: Final = frozenset({RULES_CALLBACK, "_errback"})
"""Methods that begin with an underscore, and are asked for all the same: those that rules use."""
PLAIN: Final = ""
"""The name of no callback: `parse`, as Scrapy has it."""


class Asked(Struct, frozen=True, omit_defaults=True):
    """How a page was asked for by a spider.

    `callback` and `errback` are names of methods, `PLAIN` for none. `after_form` says that a form was
    posted on the way to it, `leads_on` that its callback yielded requests and no item.
    """

    url: str = field(name="u")
    callback: str = field(default=PLAIN, name="c")
    errback: str = field(default=PLAIN, name="e")
    cb_kwargs: dict[str, Any] = field(default_factory=dict, name="k")
    headers: dict[str, list[str]] = field(default_factory=dict, name="h")
    meta: dict[str, Any] = field(default_factory=dict, name="m")
    depth: int = field(default=0, name="d")
    after_form: bool = field(default=False, name="f")
    leads_on: bool = field(default=False, name="l")

    def encoded(self) -> bytes:
        """Return it as bytes; empty where it takes too many of them."""
        text = msgspec.json.encode(self)
        packed = bytes([VERSION]) + zlib.compress(text, 6)
        return packed if len(packed) <= MOST_BYTES and len(text) <= MOST_UNPACKED else b""


_ASKED: Final = msgspec.json.Decoder(Asked)


def decoded(data: bytes) -> Asked | None:
    """Return what `Asked.encoded` made bytes of; None where they are damaged or of a later version."""
    if not data or data[0] != VERSION:
        return None
    try:
        asked = _ASKED.decode(zlib.decompressobj().decompress(data[1:], MOST_UNPACKED))
    except (zlib.error, ValueError, RecursionError):
        return None
    return None if check_url(asked.url) else asked


def asked_of(request: Request, spider: Spider) -> Asked | None:
    """Return how a request asks for its page; None where it cannot be asked like that again.

    That is so where its callback is no method of the spider's, or a private one of it, or where its
    `cb_kwargs` hold what JSON cannot.
    """
    callback, errback = (_name_of(one, spider) for one in (request.callback, request.errback))
    if callback is None or errback is None or not _is_json(request.cb_kwargs):
        return None
    if any(map(_SECRET.search, request.cb_kwargs)):
        return None
    url = without_login(request.url)
    return Asked(
        url=url,
        callback=callback,
        errback=errback,
        cb_kwargs=dict(request.cb_kwargs),
        headers={
            name.decode("latin-1"): [value.decode("latin-1") for value in values]
            for name, values in request.headers.items()
            if _is_kept_header(name.decode("latin-1"))
        },
        meta={
            key: value
            for key, value in request.meta.items()
            if _is_kept_key(str(key)) and _is_json({key: value})
        },
        depth=int(request.meta.get("depth", 0)),
        after_form=bool(request.meta.get("hacs.after_form")),
    )


def request_of(asked: Asked, spider: Spider) -> Request | None:
    """Return the request that asks for a page as before; None where the spider lacks what it names."""
    callback, errback = (_method_of(name, spider) for name in (asked.callback, asked.errback))
    if callback is _GONE or errback is _GONE or not _has_rule(asked, spider):
        return None
    meta = dict(asked.meta)
    if asked.depth:
        meta["depth"] = asked.depth
    return Request(
        asked.url,
        callback=callback,
        errback=errback,
        headers=asked.headers,
        meta={**meta, "hacs_page": asked.url},
        cb_kwargs=dict(asked.cb_kwargs),
    )


def kind_of(spider_name: str) -> str:
    """Return by which kind the annotations of a spider's pages are kept."""
    return f"asked/{spider_name}"


def read_asked(state: State, spider_name: str, page_ids: Sequence[int]) -> dict[int, Asked | None]:
    """Return how a spider asked for pages; None for those of which that is damaged."""
    found = state.store.annotations(kind_of(spider_name), page_ids)
    return {page_id: decoded(data) for page_id, data in found.items()}


def asked_pages(state: State, spider_name: str) -> Ids:
    """Return the ids of the pages of which it is known how a spider asked for them."""
    return state.store.annotated(kind_of(spider_name))


def used_callbacks(state: State, spider_name: str) -> frozenset[str]:
    """Return the names of the methods that a spider has used for pages."""
    found = read_note(state.store, _callbacks_note(spider_name), list[Any])
    return frozenset(name for name in found or () if isinstance(name, str))


def forget_asked(state: State, spider_name: str, page_ids: Sequence[int]) -> None:
    """Forget how a spider asked for pages."""
    kind = kind_of(spider_name)
    found = state.store.annotations(kind, page_ids)
    state.store.annotate(kind, [Annotation(key, value, b"") for key, value in found.items()])


def write_asked(
    state: State, spider_name: str, waiting: dict[int, Asked], callbacks: set[str]
) -> None:
    """Keep how a spider asked for pages, by their ids, and which of its methods that names."""

    def added(known: list[Any] | None) -> list[str]:
        return sorted(callbacks.union(name for name in known or () if isinstance(name, str)))

    change_note(state.store, _callbacks_note(spider_name), list[Any], added)
    encoded = {page_id: asked.encoded() for page_id, asked in waiting.items()}
    change_annotations(state.store, kind_of(spider_name), encoded, lambda key, _: encoded[key])


def _callbacks_note(spider_name: str) -> str:
    return f"callbacks/{spider_name}"


_GONE: Final = object()


def _name_of(callback: Any, spider: Spider) -> str | None:
    """Return the name of a method of the spider, `PLAIN` for none; None for any other function."""
    if callback is None:
        return PLAIN
    name = getattr(callback, "__name__", "")
    is_own = getattr(callback, "__self__", None) is spider
    return name if is_own and _may_be_used(name, spider) else None


def _may_be_used(name: str, spider: Spider) -> bool:
    is_crawl_spiders = isinstance(spider, CrawlSpider) and name in _OF_CRAWL_SPIDER
    return is_crawl_spiders or (name.isidentifier() and not name.startswith("_"))


def _method_of(name: str, spider: Spider) -> Any:
    if name == PLAIN:
        return None
    found = getattr(spider, name, None) if _may_be_used(name, spider) else None
    is_method = callable(found) and getattr(found, "__self__", None) is spider
    return found if is_method else _GONE


def _has_rule(asked: Asked, spider: Spider) -> bool:
    """Whether the rule of a `CrawlSpider` that the page was found by is still there."""
    if asked.callback != RULES_CALLBACK or not isinstance(spider, CrawlSpider):
        return True
    rule = asked.meta.get("rule")
    return isinstance(rule, int) and 0 <= rule < len(spider._rules)  # noqa: SLF001 - its own index


def _is_kept_header(name: str) -> bool:
    return not _SECRET.search(name) and not name.lower().startswith(_OF_TRANSFER)


def _is_kept_key(key: str) -> bool:
    return not key.startswith(_OF_SCRAPY) and not _SECRET.search(key)


def _is_json(value: object) -> bool:
    """Whether JSON gives back what it was given, and not a list for a tuple."""
    try:
        return bool(msgspec.json.decode(msgspec.json.encode(value)) == value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False
