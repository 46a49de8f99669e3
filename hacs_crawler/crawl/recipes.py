"""Recipes: how pages were requested, so that they can be requested again directly.

A recipe keeps callback and errback by name, `cb_kwargs`, headers, priority, and the part of `meta`
that JSON can hold, but no credentials: no login, cookie, proxy or token.
"""

import zlib
from collections.abc import Mapping, Sequence
from inspect import isfunction, unwrap
from typing import Any, Final

import msgspec
from msgspec import Struct, field
from scrapy import Request, Spider
from scrapy.spiders import CrawlSpider

from hacs_crawler.config import Pages
from hacs_crawler.crawl.secrets import MOST_CHARACTERS, has_secret
from hacs_crawler.links import check_url, without_login
from hacs_crawler.ranking.demands import EVERY_KEY, WEIGHT_KEY
from hacs_crawler.state import (
    PAGES_A_CALL,
    Annotation,
    Ids,
    State,
    change_annotations,
    change_note,
    read_note,
)
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

VERSION: Final = 1
# The longest packed recipe; pages that need more are not revisited.
MOST_BYTES: Final = 4096
_TRANSFER_HEADERS = ("content-", "if-", "host", "connection", "transfer-encoding")
_SCRAPY_KEYS = (
    "_",
    "depth",
    "download_",
    "hacs",
    "is_start_request",
    "redirect_",
    "retry_times",
    "max_retry",
)
# Prefixes of `meta` keys of renderers; without these keys, the answer would show another page.
_RENDERER_KEYS: Final = ("playwright", "splash", "zyte_api")
# The callback of requests by `CrawlSpider` rules; it calls the rule's own.
RULES_CALLBACK: Final = "_callback"
# Private methods that a recipe may name, because rules use them.
_CRAWL_SPIDER_METHODS: Final = frozenset({RULES_CALLBACK, "_errback"})
# Stands for no callback, which means `parse` to Scrapy.
PLAIN: Final = ""


class RequestRecipe(Struct, frozen=True, omit_defaults=True):
    """How a spider requested a page.

    `callback` and `errback` are names of methods, or `PLAIN`. `after_form`: a form was posted on
    the way to the page. `only_requests`: its callback yielded requests but no item.
    """

    url: str = field(name="u")
    callback: str = field(default=PLAIN, name="c")
    errback: str = field(default=PLAIN, name="e")
    cb_kwargs: dict[str, Any] = field(default_factory=dict, name="k")
    headers: dict[str, list[str]] = field(default_factory=dict, name="h")
    meta: dict[str, Any] = field(default_factory=dict, name="m")
    depth: int = field(default=0, name="d")
    priority: int = field(default=0, name="p")
    dont_filter: bool = field(default=False, name="n")
    after_form: bool = field(default=False, name="f")
    only_requests: bool = field(default=False, name="l")

    def encoded(self) -> bytes:
        """Return the recipe as bytes; empty if it is too large."""
        text = msgspec.json.encode(self)
        packed = bytes([VERSION]) + zlib.compress(text, 6)
        return packed if len(packed) <= MOST_BYTES and len(text) <= MOST_CHARACTERS else b""


_RECIPES: Final = msgspec.json.Decoder(RequestRecipe)


def decoded(data: bytes) -> RequestRecipe | None:
    """Decode a recipe; None if it is damaged or of a later version."""
    if not data or data[0] != VERSION:
        return None
    try:
        recipe = _RECIPES.decode(zlib.decompressobj().decompress(data[1:], MOST_CHARACTERS))
    except (zlib.error, ValueError, RecursionError):
        return None
    return None if check_url(recipe.url) else recipe


def recipe_of(
    request: Request, spider: Spider, left_out: set[str] | None = None
) -> RequestRecipe | None:
    """Return the recipe of a request, None if it cannot be repeated.

    The callback must be a public method of the spider, and `cb_kwargs` may hold only JSON and no
    secrets. The same holds for values of `meta` that the callback uses or that control a renderer;
    others are left out. Names of headers and `meta` keys that were left out as secrets are added to
    `left_out`.
    """
    callback, errback = (
        _name_of(function, spider) for function in (request.callback, request.errback)
    )
    if callback is None or errback is None:
        return None
    if not _is_json(request.cb_kwargs) or has_secret(request.cb_kwargs):
        return None
    headers = {
        name.decode("latin-1"): [value.decode("latin-1") for value in values]
        for name, values in request.headers.items()
        if not name.decode("latin-1").lower().startswith(_TRANSFER_HEADERS)
    }
    meta = {
        key: value
        for key, value in request.meta.items()
        if key in {WEIGHT_KEY, EVERY_KEY} or not str(key).startswith(_SCRAPY_KEYS)
    }
    secret_headers = {
        name
        for name, value in headers.items()
        if name.lower().endswith("-key") or has_secret({name: value})
    }
    secret_keys = {str(key) for key, value in meta.items() if has_secret({key: value})}
    lost = secret_keys | {str(key) for key, value in meta.items() if not _is_json({key: value})}
    if any(key.startswith(_RENDERER_KEYS) for key in lost) or (
        lost & _texts_in(request.callback or getattr(spider, "parse", None), spider)
    ):
        return None
    if left_out is not None:
        left_out |= secret_headers | secret_keys
    return RequestRecipe(
        url=without_login(request.url),
        callback=callback,
        errback=errback,
        cb_kwargs=dict(request.cb_kwargs),
        headers={name: value for name, value in headers.items() if name not in secret_headers},
        meta={key: value for key, value in meta.items() if str(key) not in lost},
        depth=int(request.meta.get("depth", 0)),
        priority=request.priority,
        dont_filter=request.dont_filter,
        after_form=bool(request.meta.get("hacs.after_form")),
    )


def request_of(recipe: RequestRecipe, spider: Spider) -> Request | None:
    """Return a recipe's request; None if the spider lacks a method or rule that it names."""
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
        # bytes, because Scrapy encodes text as UTF-8, which would grow with each revisit
        headers={
            name.encode("latin-1"): [value.encode("latin-1") for value in values]
            for name, values in recipe.headers.items()
        },
        meta={**meta, "hacs_page": recipe.url},
        cb_kwargs=dict(recipe.cb_kwargs),
        priority=recipe.priority,
        dont_filter=recipe.dont_filter,
    )


class Repeats(Struct):
    """Requests for pages to visit again, best first, and pages that cannot be requested."""

    requests: list[Request] = field(default_factory=list)
    # How many were skipped because a form was posted on the way to them.
    behind_form: int = 0
    # How many have a damaged recipe.
    damaged: int = 0
    # Ids and callbacks of pages whose callback or rule the spider lacks.
    gone: list[tuple[int, str]] = field(default_factory=list)

    def log(self, spider: Spider) -> None:
        """Log how many pages cannot be requested, and why."""
        if self.gone:
            names = sorted({name or "parse" for _, name in self.gone})
            logger.warning(
                "%d known pages are not visited again: they were requested with callbacks, or rules, "
                "that the spider %s no longer has (%s); they are visited when it comes across them",
                len(self.gone),
                spider.name,
                ", ".join(names),
            )
        if self.damaged:
            logger.warning(
                "damaged: %s of how pages are requested; these pages are visited, and the records "
                "repaired, when the spider comes across them",
                counted(self.damaged, "record"),
            )
        if self.behind_form:
            logger.info(
                "%s not revisited, as they are requested by POST, or after a form, such as a login, was "
                "posted: only the spider's own requests visit them",
                counted(self.behind_form, "of the best pages is", "of the best pages are"),
            )


def kind_of(spider_name: str) -> str:
    """Return the kind of annotation that holds a spider's recipes."""
    return f"asked/{spider_name}"


def handed_over_kind(spider_name: str) -> str:
    """Return the kind of annotation that marks the pages whose requests wait for the next crawl."""
    return f"handed-over/{spider_name}"


def read_recipes(
    state: State, spider_name: str, page_ids: Sequence[int]
) -> dict[int, RequestRecipe | None]:
    """Return a spider's recipes by page id, None for a damaged one."""
    stored = state.store.annotations(kind_of(spider_name), page_ids)
    return {page_id: decoded(data) for page_id, data in stored.items()}


def pages_with_recipe(state: State, spider_name: str) -> Ids:
    """Return the ids of the pages for which a spider has recipes."""
    return state.store.annotated(kind_of(spider_name))


def with_only_requests(state: State, spider_name: str, page_ids: Sequence[int]) -> list[int]:
    """Return the pages whose callbacks yielded requests but no item."""
    recipes = read_recipes(state, spider_name, page_ids)
    return [page_id for page_id, how in recipes.items() if how is not None and how.only_requests]


def pages_handed_over(state: State, spider_name: str) -> Ids:
    """Return the ids of the pages whose requests wait for a spider's next crawl of the shard."""
    return state.store.annotated(handed_over_kind(spider_name))


def spiders_with_recipes(state: State) -> list[str]:
    """Return the names of the spiders that have had recipes."""
    prefix = _callbacks_note("")
    return sorted(key.removeprefix(prefix) for key in state.store.notes() if key.startswith(prefix))


def used_callbacks(state: State, spider_name: str) -> frozenset[str]:
    """Return the names of the methods that a spider has used for pages."""
    names = read_note(state.store, _callbacks_note(spider_name), list[Any])
    return frozenset(name for name in names or () if isinstance(name, str))


def forget_recipes(state: State, spider_name: str, page_ids: Sequence[int]) -> None:
    """Forget a spider's recipes for pages."""
    kind = kind_of(spider_name)
    stored = state.store.annotations(kind, page_ids)
    state.store.annotate(kind, [Annotation(key, value, b"") for key, value in stored.items()])


def requests_again(state: State, page_ids: Ids, spider: Spider, most: int, pages: Pages) -> Repeats:
    """Return requests for the first `most` pages of HACS_PAGES; forget recipes without a callback."""
    callbacks, choice = used_callbacks(state, spider.name), Repeats()
    for start in range(0, len(page_ids), PAGES_A_CALL):
        ids = page_ids[start : start + PAGES_A_CALL].tolist()
        recipe = read_recipes(state, spider.name, ids)
        for page_id in ids:
            if len(choice.requests) >= most:
                break
            if (how := recipe.get(page_id)) is None:
                choice.damaged += 1
            elif how.after_form:
                choice.behind_form += 1
            elif isinstance(pages, tuple) and not any(one.search(how.url) for one in pages):
                continue
            elif {how.callback, how.errback} <= callbacks and (request := request_of(how, spider)):
                choice.requests.append(request)
            else:
                choice.gone.append((page_id, how.callback))
    forget_recipes(state, spider.name, [page_id for page_id, _ in choice.gone])
    return choice


def write_recipes(
    state: State, spider_name: str, waiting: Mapping[int, RequestRecipe], callbacks: set[str]
) -> None:
    """Write a spider's recipes by page id, and the names of the methods that they use."""

    def added(before: list[Any] | None) -> list[str]:
        return sorted(callbacks.union(name for name in before or () if isinstance(name, str)))

    change_note(state.store, _callbacks_note(spider_name), list[Any], added)
    encoded = {page_id: recipe.encoded() for page_id, recipe in waiting.items()}
    change_annotations(state.store, kind_of(spider_name), encoded, lambda key, _: encoded[key])


def _callbacks_note(spider_name: str) -> str:
    return f"callbacks/{spider_name}"


_GONE: Final = object()


def _name_of(callback: Any, spider: Spider) -> str | None:
    """Return the name of a method of the spider; `PLAIN` for None, None for other functions."""
    if callback is None:
        return PLAIN
    name = getattr(callback, "__name__", "")
    is_own = getattr(callback, "__self__", None) is spider
    return name if is_own and _may_be_used(name, spider) else None


def _may_be_used(name: str, spider: Spider) -> bool:
    is_crawl_spiders = isinstance(spider, CrawlSpider) and name in _CRAWL_SPIDER_METHODS
    return is_crawl_spiders or (name.isidentifier() and not name.startswith("_"))


def _method_of(name: str, spider: Spider) -> Any:
    if name == PLAIN:
        return None
    method = getattr(spider, name, None) if _may_be_used(name, spider) else None
    is_method = callable(method) and getattr(method, "__self__", None) is spider
    return method if is_method else _GONE


def _has_rule(recipe: RequestRecipe, spider: Spider) -> bool:
    """Whether a `CrawlSpider` still has the rule that led to the page."""
    if recipe.callback != RULES_CALLBACK or not isinstance(spider, CrawlSpider):
        return True
    rule = recipe.meta.get("rule")
    return isinstance(rule, int) and 0 <= rule < len(spider._rules)  # noqa: SLF001 - its own index


def _texts_in(callback: Any, spider: Spider) -> set[str]:
    """Return the strings, such as `meta` keys, in the code of a callback and methods that it names."""
    texts: set[str] = set()
    seen: set[str] = set()
    waiting = [getattr(unwrap(callback), "__code__", None)]
    while waiting:
        code = waiting.pop()
        constants = getattr(code, "co_consts", ())
        texts |= {constant for constant in constants if isinstance(constant, str)}
        waiting += [constant for constant in constants if hasattr(constant, "co_consts")]
        names = set(getattr(code, "co_names", ())) - seen
        seen |= names
        methods = (getattr(type(spider), name, None) for name in names)
        waiting += [unwrap(method).__code__ for method in methods if isfunction(method)]
    return texts


def _is_json(value: object) -> bool:
    """Whether a value survives JSON unchanged (a tuple would become a list)."""
    try:
        return bool(msgspec.json.decode(msgspec.json.encode(value)) == value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False
