"""How a page was requested, so that it can be requested again without the pages that led to it.

A recipe has what the spider said: callback and errback by name, `cb_kwargs`, headers, and of `meta` what
JSON can hold; but nothing that says who asked: no login, no cookie, no proxy.
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
"""The longest packed recipe; a page that would need more is not requested again by itself."""
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
"""Private methods that a recipe may name: those that rules use."""
PLAIN: Final = ""
"""The name of no callback: `parse`, as Scrapy has it."""


class RequestRecipe(Struct, frozen=True, omit_defaults=True):
    """How a spider requested a page.

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
        """Return it as bytes; empty where they would be too many."""
        text = msgspec.json.encode(self)
        packed = bytes([VERSION]) + zlib.compress(text, 6)
        return packed if len(packed) <= MOST_BYTES and len(text) <= MOST_UNPACKED else b""


_RECIPES: Final = msgspec.json.Decoder(RequestRecipe)


def decoded(data: bytes) -> RequestRecipe | None:
    """Return the recipe of `RequestRecipe.encoded`; None where it is damaged or of a later version."""
    if not data or data[0] != VERSION:
        return None
    try:
        recipe = _RECIPES.decode(zlib.decompressobj().decompress(data[1:], MOST_UNPACKED))
    except (zlib.error, ValueError, RecursionError):
        return None
    return None if check_url(recipe.url) else recipe


def recipe_of(request: Request, spider: Spider) -> RequestRecipe | None:
    """Return the recipe of a request; None where it cannot be repeated.

    That is so where its callback is no public method of the spider's, or its `cb_kwargs` hold what JSON
    cannot.
    """
    callback, errback = (
        _name_of(function, spider) for function in (request.callback, request.errback)
    )
    if callback is None or errback is None or not _is_json(request.cb_kwargs):
        return None
    if any(map(_SECRET.search, request.cb_kwargs)):
        return None
    url = without_login(request.url)
    return RequestRecipe(
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


def request_of(recipe: RequestRecipe, spider: Spider) -> Request | None:
    """Return a recipe's request; None where the spider lacks a method or rule that it names."""
    callback, errback = (_method_of(name, spider) for name in (recipe.callback, recipe.errback))
    if callback is _GONE or errback is _GONE or not _has_rule(recipe, spider):
        return None
    meta = dict(recipe.meta)
    if recipe.depth:
        meta["depth"] = recipe.depth
    return Request(
        recipe.url,
        callback=callback,
        errback=errback,
        headers=recipe.headers,
        meta={**meta, "hacs_page": recipe.url},
        cb_kwargs=dict(recipe.cb_kwargs),
    )


def kind_of(spider_name: str) -> str:
    """Return the kind of annotation that holds a spider's recipes."""
    return f"asked/{spider_name}"


def read_recipes(
    state: State, spider_name: str, page_ids: Sequence[int]
) -> dict[int, RequestRecipe | None]:
    """Return a spider's recipes by page id, None for a damaged one."""
    stored = state.store.annotations(kind_of(spider_name), page_ids)
    return {page_id: decoded(data) for page_id, data in stored.items()}


def pages_with_recipe(state: State, spider_name: str) -> Ids:
    """Return the ids of the pages for which a spider has recipes."""
    return state.store.annotated(kind_of(spider_name))


def used_callbacks(state: State, spider_name: str) -> frozenset[str]:
    """Return the names of the methods that a spider has used for pages."""
    names = read_note(state.store, _callbacks_note(spider_name), list[Any])
    return frozenset(name for name in names or () if isinstance(name, str))


def forget_recipes(state: State, spider_name: str, page_ids: Sequence[int]) -> None:
    """Forget a spider's recipes for pages."""
    kind = kind_of(spider_name)
    stored = state.store.annotations(kind, page_ids)
    state.store.annotate(kind, [Annotation(key, value, b"") for key, value in stored.items()])


def write_recipes(
    state: State, spider_name: str, waiting: dict[int, RequestRecipe], callbacks: set[str]
) -> None:
    """Write a spider's recipes by page id, and the names of the methods that they use."""

    def added(known: list[Any] | None) -> list[str]:
        return sorted(callbacks.union(name for name in known or () if isinstance(name, str)))

    change_note(state.store, _callbacks_note(spider_name), list[Any], added)
    encoded = {page_id: recipe.encoded() for page_id, recipe in waiting.items()}
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
    method = getattr(spider, name, None) if _may_be_used(name, spider) else None
    is_method = callable(method) and getattr(method, "__self__", None) is spider
    return method if is_method else _GONE


def _has_rule(recipe: RequestRecipe, spider: Spider) -> bool:
    """Whether the rule of a `CrawlSpider` that the page was found by is still there."""
    if recipe.callback != RULES_CALLBACK or not isinstance(spider, CrawlSpider):
        return True
    rule = recipe.meta.get("rule")
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
