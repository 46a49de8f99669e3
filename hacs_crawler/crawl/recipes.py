"""How a page was requested, so that it can be requested again without the pages that led to it.

A recipe keeps the spider's choices: callback and errback by name, `cb_kwargs`, headers, priority, and
the part of `meta` that JSON can hold; but no credentials: no login, cookie, proxy or token.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from inspect import isfunction, unwrap
from typing import Any, Final

import msgspec
from msgspec import Struct, field
from scrapy import Request, Spider
from scrapy.spiders import CrawlSpider

from hacs_crawler.links import check_url, without_login
from hacs_crawler.ranking.demands import EVERY_KEY, WEIGHT_KEY
from hacs_crawler.state import Annotation, Ids, State, change_annotations, change_note, read_note

VERSION: Final = 1
# The longest packed recipe; a page that would need more is not requested again by itself.
MOST_BYTES: Final = 4096
MOST_UNPACKED: Final = 65_536
_BETWEEN_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+")
# A secret's name in lower case, its words joined by _; not `author` or `sort_key`.
_SECRET_NAME = re.compile(
    r"auth(?!or(?!i[sz])|entic(?!at))|bearer|cookie|credential|csrf|hmac|jwt|pass(?:code|phrase|w)|proxy"
    r"|pwd|secret(?!ar)|sessid|session|signature|token(?!iz|s?_count)|xsrf|user_?pass|client_assertion"
    r"|contrase[n_]a|kennwort|mot_de_passe|wachtwoord"
    r"|(?:access|account|api|app|application|client|consumer|developer|encryption|functions|licen[cs]e"
    r"|master|private|service|shared|signing|ssh|subscription|webhook)_?keys?(?:_|$)"
    r"|card_?(?:number|no)(?:_|$)|connection_string|login_hash|mnemonic|seed_phrase|verifier|webhook_url"
    r"|(?:mfa|pin|recovery|security|sms|unlock|verification)_?(?:answer|code)(?:_|$)"
    r"|(?:^|_)(?:2fa|creds?|cv[cv]|dsn|http_user|nonce|pass|pin|pw|salt|saml|sas|senha|sess|sid|sig|sso|t?otp)"
    r"(?:_|$)"
)
# A name and its value in a text, as in JSON, a query or a form.
_NAME_WITH_VALUE = re.compile(
    r"(?<![\w.-])([A-Za-z][\w.-]{0,60})[\"']?\s?[=:]\s?[\"']?[^\s\"'=:,;&]"
)
# A token: a login in a URL, a prefix of a service, long hexadecimal or mixed text.
#
# UUIDs and the ids of 24 hexadecimal digits that databases give are not tokens.
_SECRET_VALUE = re.compile(
    r"\b(?:Basic|Bearer|Digest|Token)\s+(?=\S*(?:[0-9=]|[a-z][A-Z]))\S{8}"
    r"|://[^/?#\s@]+@|(?<![\w.%-])(?!(?:acct|mailto|sip|xmpp):)[\w.%-]+:[^\s/@:]+@[\w-]+[.:]"
    r"|\beyJ[\w-]{8,}\.[\w-]+\."
    r"|\b(?:gh[a-z]_|github_pat_|glpat-|[prs]k_(?:live|test)_|xox[a-z]-|AKIA|ASIA|AIza|ya29\.|hf_|npm_"
    r"|pypi-|shp[a-z]{2}_|SG\.|sk-(?:ant|proj)-)[\w.-]{12}"
    r"|\b[0-9]{8,10}:[\w-]{30}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|(?<![0-9A-Za-z])(?:[0-9a-fA-F]{32,}(?![0-9A-Za-z])"
    r"|(?=[A-Z0-9]*[a-z])(?=[a-z0-9]*[A-Z])(?=(?:[A-Za-z]*[0-9]){2})[A-Za-z0-9]{20}"
    r"|(?![0-9a-f]{24}\b)(?=(?:[A-Za-z]+[0-9]+){3})[A-Za-z0-9]{16}"
    r"|(?=\S*[0-9])(?=\S*[a-z][A-Z])[A-Za-z0-9+/]{40}(?![\w+/=.-]))"
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
# Keys of `meta` by which a page is rendered; without them another page would come.
_OF_RENDERERS: Final = ("playwright", "splash", "zyte_api")
# What rules of a `CrawlSpider` have as callback: it calls theirs.
RULES_CALLBACK: Final = "_callback"
# Private methods that a recipe may name, because rules use them.
_OF_CRAWL_SPIDER: Final = frozenset({RULES_CALLBACK, "_errback"})
# The name of no callback: `parse`, as Scrapy has it.
PLAIN: Final = ""


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
    priority: int = field(default=0, name="p")
    dont_filter: bool = field(default=False, name="n")
    after_form: bool = field(default=False, name="f")
    leads_on: bool = field(default=False, name="l")

    def encoded(self) -> bytes:
        """Return the recipe as bytes; empty if it is too large."""
        text = msgspec.json.encode(self)
        packed = bytes([VERSION]) + zlib.compress(text, 6)
        return packed if len(packed) <= MOST_BYTES and len(text) <= MOST_UNPACKED else b""


_RECIPES: Final = msgspec.json.Decoder(RequestRecipe)


def decoded(data: bytes) -> RequestRecipe | None:
    """Return the recipe of `RequestRecipe.encoded`; None if it is damaged or of a later version."""
    if not data or data[0] != VERSION:
        return None
    try:
        recipe = _RECIPES.decode(zlib.decompressobj().decompress(data[1:], MOST_UNPACKED))
    except (zlib.error, ValueError, RecursionError):
        return None
    return None if check_url(recipe.url) else recipe


def recipe_of(
    request: Request, spider: Spider, left_out: set[str] | None = None
) -> RequestRecipe | None:
    """Return the recipe of a request, None if it cannot be repeated.

    That is so if its callback is not a public method of the spider, if its `cb_kwargs` hold a secret or
    what JSON cannot, or if such a key of `meta` is named by the callback or asks for a browser. Names of
    headers and keys of `meta` that are left out as secrets are added to `left_out`.
    """
    callback, errback = (
        _name_of(function, spider) for function in (request.callback, request.errback)
    )
    if callback is None or errback is None:
        return None
    if not _is_json(request.cb_kwargs) or _has_secret(request.cb_kwargs):
        return None
    headers = {
        name.decode("latin-1"): [value.decode("latin-1") for value in values]
        for name, values in request.headers.items()
        if not name.decode("latin-1").lower().startswith(_OF_TRANSFER)
    }
    meta = {
        key: value
        for key, value in request.meta.items()
        if key in {WEIGHT_KEY, EVERY_KEY} or not str(key).startswith(_OF_SCRAPY)
    }
    secret_headers = {
        name
        for name, value in headers.items()
        if name.lower().endswith("-key") or _has_secret({name: value})
    }
    secret_keys = {str(key) for key, value in meta.items() if _has_secret({key: value})}
    lost = secret_keys | {str(key) for key, value in meta.items() if not _is_json({key: value})}
    if any(key.startswith(_OF_RENDERERS) for key in lost) or (
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
        # as bytes: Scrapy would encode text as UTF-8, and each revisit make it longer
        headers={
            name.encode("latin-1"): [value.encode("latin-1") for value in values]
            for name, values in recipe.headers.items()
        },
        meta={**meta, "hacs_page": recipe.url},
        cb_kwargs=dict(recipe.cb_kwargs),
        priority=recipe.priority,
        dont_filter=recipe.dont_filter,
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


def leading_on(state: State, spider_name: str, page_ids: Sequence[int]) -> list[int]:
    """Return which pages' callbacks yielded requests and no item."""
    recipes = read_recipes(state, spider_name, page_ids)
    return [page_id for page_id, how in recipes.items() if how is not None and how.leads_on]


def pages_handed_over(state: State, spider_name: str) -> Ids:
    """Return the ids of the pages whose requests wait for a spider's next crawl of the shard."""
    return state.store.annotated(handed_over_kind(spider_name))


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


def _has_secret(value: object) -> bool:
    """Whether a name at any depth is a secret's, or a text looks like one."""
    if isinstance(value, str):
        value = value[:MOST_UNPACKED]  # a longer text is in no recipe
        names = _NAME_WITH_VALUE.finditer(value)
        return bool(_SECRET_VALUE.search(value)) or any(is_secret_name(item[1]) for item in names)
    if isinstance(value, dict):
        if "value" in value and any(is_secret_name(str(value.get(key))) for key in ("name", "key")):
            return True  # a field of a form, or a cookie as browsers write it
        return any(
            (not isinstance(item, bool) and item and is_secret_name(str(name)))
            or _has_secret(item)
            or _SECRET_VALUE.search(str(name))
            for name, item in value.items()  # a flag, as `dont_merge_cookies`, is not a secret
        )
    if isinstance(value, list | tuple):
        # as the fields of a form are given
        is_pair = len(value) == 2 and isinstance(value[0], str)
        return (is_pair and is_secret_name(value[0])) or any(map(_has_secret, value))
    return False


@lru_cache(maxsize=1024)
def is_secret_name(name: str) -> bool:
    """Whether a header, a parameter or a field of this name holds a secret."""
    return _SECRET_NAME.search(_BETWEEN_WORDS.sub("_", name).lower()) is not None


def _texts_in(callback: Any, spider: Spider) -> set[str]:
    """Return the text constants of a callback's code, and of methods of the spider that it names.

    They include the keys of `meta` that it uses.
    """
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
