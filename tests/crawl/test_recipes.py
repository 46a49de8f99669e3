"""How a page was asked for, kept as bytes, and asked for again."""

import string
from typing import Any

import pytest
from hypothesis import given, strategies as st
from scrapy import Request, Spider
from scrapy.http import FormRequest, HtmlResponse
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from hacs_crawler.crawl.recipes import (
    MOST_BYTES,
    RequestRecipe,
    decoded,
    forget_recipes,
    pages_with_recipe,
    read_recipes,
    recipe_of,
    request_of,
    used_callbacks,
    write_recipes,
)
from hacs_crawler.links import page_id_of
from hacs_crawler.state import Estimation, MemoryStore, State
from state_support import Late

URL = "http://a.example/x"
names = st.text(string.ascii_letters, min_size=1, max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)


class Any_(Spider):  # noqa: N801 - a spider of somebody's
    name = "any"

    def parse(self, response: Any) -> None: ...

    def parse_item(self, response: Any, **kwargs: Any) -> None: ...

    def failed(self, failure: Any) -> None: ...

    def _private(self, response: Any) -> None: ...


class Shop(CrawlSpider):
    name = "shop"
    rules = (Rule(LinkExtractor(), callback="parse_item"),)

    def parse_item(self, response: Any) -> None: ...


def ask(spider: Spider | None = None, **arguments: Any) -> RequestRecipe | None:
    return recipe_of(Request(URL, **arguments), spider or Any_())


def again(spider: Spider, asked: RequestRecipe | None) -> Request | None:
    return request_of(decoded(asked.encoded()), spider)


def test_a_request_is_made_again_as_it_was() -> None:
    spider = Any_()
    first = Request(
        URL,
        callback=spider.parse_item,
        errback=spider.failed,
        headers={"X-Part": ["a", "b"]},
        cb_kwargs={"part": {"of": [1, 2]}},
        meta={"depth": 3, "colour": "red"},
    )
    request = again(spider, recipe_of(first, spider))
    assert (request.url, request.callback, request.errback) == (
        URL,
        spider.parse_item,
        spider.failed,
    )
    assert request.headers.getlist("X-Part") == [b"a", b"b"]
    assert request.cb_kwargs == {"part": {"of": [1, 2]}}
    assert (request.meta["depth"], request.meta["colour"]) == (3, "red")
    assert not request.dont_filter


@given(st.dictionaries(names, values, max_size=4), st.dictionaries(names, values, max_size=4))
def test_whatever_json_can_hold_comes_back(kwargs: dict[str, Any], meta: dict[str, Any]) -> None:
    asked = RequestRecipe(URL, "parse_item", "", kwargs, {}, meta, depth=2, only_requests=True)
    data = asked.encoded()
    assert len(data) <= MOST_BYTES
    if data:
        assert decoded(data) == asked


@given(st.binary(max_size=60))
def test_rubbish_is_nothing(data: bytes) -> None:
    assert decoded(data) is None
    assert decoded(b"\x01" + data) is None


def test_what_takes_too_many_bytes_is_not_kept() -> None:
    text = "".join(chr(33 + (7 * one * one) % 5000) for one in range(30_000))
    assert RequestRecipe(URL, cb_kwargs={"text": text}).encoded() == b""
    assert RequestRecipe(URL, cb_kwargs={"text": "a" * 100_000}).encoded() == b""


SECRETS: list[dict[str, Any]] = [
    *(
        {name: "x"}
        for name in (
            *("Authorization", "X-Auth-Token", "Ocp-Apim-Subscription-Key", "X-JWT", "accessKey"),
            *("APIKEY", "pwd", "PHPSESSID", "pinCode", "licence_key", "2fa"),
        )
    ),
    {"pin": 1234},
    {"login": {"user": "ada", "password": "x"}},
    {"steps": [{"fill": {"userPassword": "x"}}]},
    {"form": [["user", "ada"], ["password", "x"]]},
    {"body": '{"user": "ada", "secret": "x"}'},
    {"query": "user=ada&access_token=x"},
    {"via": "http://ada:x@a.example/"},
    {"with": "Bearer abcdef12"},
    {"code": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc"},
    {"code": "ghp_abcdefghijklmnop"},
    {"code": "sk-abcdEFGH1234abcdEFGH1234"},
    {"code": "d41d8cd98f00b204e9800998ecf8427e"},
    {"db": {"connectionString": "x"}},
    {"fields": [{"name": "password", "value": "x"}]},
    {"seen": {"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc": 1}},
    {"through": "ada:x@a.example:80"},
    {"with": "Basic dXNlcjpwYXNz"},
    {"code": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"},
    {"code": "dop_v1_0123456789abcdef0123456789abcdef"},
    {"code": "123456789:AAH_abcdefghijklmnopqrstuvwxyz1234"},
    {"code": "qk3vx9plm2rt7yw1zb5"},
]
NO_SECRETS: list[dict[str, Any]] = [
    {"author": "Ada", "authority": "x", "sort_key": "price", "key": "x", "compass": "n"},
    {"title": "Basic information about cookies", "slug": "sk-bratislava-old-town-guide-2020"},
    {"path": "/Products/Details/12345/Annual-Report-2020", "text": "Annual report: 2020"},
    {"id": "550e8400-e29b-41d4-a716-446655440000", "next": "http://a.example/x?page=2&sort=a"},
    {"dont_merge_cookies": True, "secretary": "x", "tokens_count": 3, "tokenizer": "x"},
    {
        "id": "507f1f77bcf86cd799439011",
        "mail": "mailto:ada@a.example",
        "field": {"name": "colour", "value": 1},
    },
]


@pytest.mark.parametrize("secret", SECRETS, ids=str)
def test_no_secret_is_kept_whatever_its_name_or_depth(secret: dict[str, Any]) -> None:
    left_out: set[str] = set()
    asked = recipe_of(Request(URL, meta={**secret, "colour": "red"}), Any_(), left_out)
    assert (asked.meta, left_out) == ({"colour": "red"}, set(secret))
    assert ask(cb_kwargs=secret) is None, "its callback needs it"


@pytest.mark.parametrize("plain", NO_SECRETS, ids=str)
def test_what_only_resembles_a_secret_is_kept(plain: dict[str, Any]) -> None:
    asked = ask(meta=plain, cb_kwargs=plain)
    assert asked.meta == asked.cb_kwargs == plain


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Authorization", "x"),
        ("Cookie", "a=b"),
        ("Proxy-Authorization", "x"),
        ("X-Functions-Key", "x"),
        ("Set-Cookie2", "x"),
        ("X-Part", "Bearer abcdef12"),
        ("Referer", "http://ada:x@a.example/"),
    ],
)
def test_no_header_is_kept_that_says_who_asks(name: str, value: str) -> None:
    asked = ask(headers={name: value, "Accept": "text/html"})
    assert asked.headers == {"Accept": ["text/html"]}


def test_a_callback_that_names_a_secret_of_meta_cannot_do_without_it() -> None:
    class Named(Any_):
        def parse(self, response: Any) -> None:
            [response.meta["auth"] for _ in range(2)]

    class Passed(Any_):
        def parse(self, response: Any) -> None:
            self._read(response)

        def _read(self, response: Any) -> None:
            response.meta["auth"]

    for spider in (Named(), Passed()):
        assert ask(spider, meta={"auth": "x"}) is None
        assert ask(spider, meta={"jwt": "x"}) is not None
        assert ask(spider, meta={"auth": object()}) is None
        assert ask(spider, meta={"other": object()}) is not None


@pytest.mark.parametrize(
    "meta", [{"splash": {"session_id": "x"}}, {"playwright_page_methods": [object()]}]
)
def test_a_page_that_is_rendered_is_not_requested_without_what_renders_it(
    meta: dict[str, Any],
) -> None:
    assert ask(meta=meta) is None
    assert ask(meta={"splash": {"wait": 1}, "playwright": True}) is not None


def test_a_revisit_is_sent_as_the_page_was_requested_however_often() -> None:
    spider = Any_()
    headers = {"X-City": "Zürich", "X-Raw": b"\xff\xe9"}
    request = Request(URL, headers=headers, priority=5, dont_filter=True)
    for _ in range(3):
        found = again(spider, recipe_of(request, spider))
        assert found.headers.to_string() == request.headers.to_string()
        assert (found.priority, found.dont_filter) == (5, True)
        request = found


def test_no_meta_is_kept_of_who_asks_nor_of_how_it_went() -> None:
    who = ("cookiejar", "proxy", "password", "auth_token", "session")
    how = ("redirect_urls", "download_slot", "hacs")
    others = {("a", 1): 3, "made": object(), "colour": "red"}
    assert ask(meta={**dict.fromkeys(who + how, "x"), **others}).meta == {"colour": "red"}


def test_cookies_and_logins_are_not_kept() -> None:
    asked = recipe_of(Request("http://ada:pw@a.example/x", cookies={"a": "b"}), Any_())
    assert b"pw" not in asked.encoded()
    assert asked.url == URL


def test_what_cannot_be_asked_like_that_again_is_not_kept() -> None:
    spider = Any_()
    assert ask(callback=lambda response: None) is None
    assert ask(spider, callback=spider._private) is None
    assert ask(Any_(), callback=spider.parse_item) is None, "another spider's method"
    assert ask(cb_kwargs={"part": (1, 2)}) is None
    assert ask(cb_kwargs={"token": "x"}) is None


def test_private_methods_are_never_called_whatever_a_state_says() -> None:
    for name in ("_private", "__init__", "name", "no_such", "crawler.stop", "from_crawler"):
        assert request_of(RequestRecipe(URL, name), Any_()) is None


def test_the_rule_of_a_crawl_spider_is_kept_and_has_to_be_there() -> None:
    spider = Shop()
    page = HtmlResponse("http://a.example/", body=f'<a href="{URL}">x</a>'.encode())
    (first,) = spider._requests_to_follow(page)
    request = again(spider, recipe_of(first, spider))
    assert (request.callback, request.meta["rule"]) == (spider._callback, 0)
    spider._rules = []
    assert again(spider, recipe_of(first, spider)) is None


def test_what_a_form_led_to_is_known() -> None:
    request = FormRequest(URL, method="GET", meta={"hacs.after_form": True})
    assert recipe_of(request, Any_()).after_form


def test_pages_are_kept_by_the_name_of_the_spider() -> None:
    state, page_id = State(MemoryStore(), Estimation()), page_id_of(URL)
    write_recipes(state, "any", {page_id: RequestRecipe(URL, "parse_item")}, {"parse_item", ""})
    assert pages_with_recipe(state, "any").tolist() == [page_id]
    assert pages_with_recipe(state, "other").tolist() == []
    assert used_callbacks(state, "any") == {"parse_item", ""}
    assert read_recipes(state, "any", [page_id, 8]) == {page_id: RequestRecipe(URL, "parse_item")}
    forget_recipes(state, "any", [page_id, 8])
    assert pages_with_recipe(state, "any").tolist() == []


def test_of_two_crawls_that_write_at_once_no_callback_and_no_page_is_forgotten() -> None:
    state = State(MemoryStore(), Estimation())

    def write(to: State, page_id: int, callback: str) -> None:
        write_recipes(to, "any", {page_id: RequestRecipe(URL, callback)}, {callback, ""})

    late = State(MemoryStore(), Estimation())
    late.store = Late(state.store, lambda: write(state, 2, "parse"))
    write(late, 1, "parse_item")
    assert used_callbacks(state, "any") == {"parse", "parse_item", ""}
    assert pages_with_recipe(state, "any").tolist() == [1, 2]
