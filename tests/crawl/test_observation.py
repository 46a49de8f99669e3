"""What one response tells of its page, without a crawl."""

import gzip
import re
from typing import Any

import pytest
from msgspec.structs import replace
from scrapy.http import HtmlResponse, Response, TextResponse, XmlResponse
from scrapy.responsetypes import responsetypes

from crawl_support import PREDICTION
from hacs_crawler.crawl.observation import observe, tree_of
from hacs_crawler.links import (
    LinkRules,
    body_number,
    canonical_link,
    link_fingerprint,
    source_links,
)
from hacs_crawler.state import News, Page, Visit, merged
from hacs_crawler.watch.settings import mark_rules

PAGE = "http://a.example/"
AT = 1_700_000_000
RULES = LinkRules()
TWO_LINKS = b'<a href="/one">1</a> <a href="http://b.example/two">2</a>'


def html(body: bytes = TWO_LINKS, url: str = PAGE, **more: Any) -> HtmlResponse:
    return HtmlResponse(url, body=body, **more)


def fingerprints(*links: str) -> frozenset[int]:
    found = [canonical_link(PAGE, link) for link in links]
    return frozenset(link_fingerprint(link) for link in found if link is not None)


def seen(response: Response, rules: LinkRules = RULES) -> Visit:
    """The visit, of a response that shows its page."""
    visit, reason = observe(response, PAGE, AT, rules)
    assert reason == ""
    assert visit.news is News.SEEN
    return visit


def why_not_seen(response: Response) -> str:
    """The reason, of a response that came over the network and told nothing."""
    visit, reason = observe(response, PAGE, AT, RULES, PREDICTION)
    size = len(response.body)
    assert visit == Visit(PAGE, AT, News.FAILED, prediction=PREDICTION, bytes=size)
    return reason


def test_a_page_is_seen_with_its_links_validators_and_size() -> None:
    headers = {"ETag": '"5f"', "Last-Modified": "Tue, 14 Nov 2023 22:13:20 GMT"}
    assert observe(html(headers=headers), PAGE, AT, RULES, PREDICTION) == (
        Visit(
            PAGE,
            AT,
            News.SEEN,
            marks=fingerprints("/one", "http://b.example/two"),
            rules=RULES.fingerprint,
            hrefs=source_links(tree_of(html()), PAGE, LinkRules()).number(
                RULES, body_number(TWO_LINKS, PAGE, RULES.fingerprint)
            ),
            etag='"5f"',
            last_modified="Tue, 14 Nov 2023 22:13:20 GMT",
            prediction=PREDICTION,
            bytes=len(TWO_LINKS),
        ),
        "",
    )


@pytest.mark.parametrize("status", [200, 203, 206, 226, 299])
def test_every_2xx_answer_shows_the_page(status: int) -> None:
    assert seen(html(status=status)).marks == fingerprints("/one", "http://b.example/two")


def test_what_a_page_without_links_shows_is_no_baseline() -> None:
    assert seen(html(b"<p>nothing yet")).marks is None


def test_the_visit_is_the_pages_though_the_answer_came_from_elsewhere() -> None:
    visit = seen(html(b'<a href="one">1</a>', "http://b.example/moved/here"))
    assert visit.url == PAGE
    assert visit.marks == fingerprints("http://b.example/moved/one")


def test_links_are_those_that_the_rules_let_count() -> None:
    assert seen(html(), LinkRules("same-site")).marks == fingerprints("/one")
    denied = LinkRules(deny=(re.compile("one"),))
    assert seen(html(), denied).marks == fingerprints("http://b.example/two")


def test_a_304_is_a_visit_that_shows_no_links_and_leaves_the_validators_alone() -> None:
    response = Response(PAGE, status=304, headers={"ETag": '"5f"'})
    unchanged = Visit(PAGE, AT, News.SEEN, prediction=PREDICTION)
    assert observe(response, PAGE, AT, RULES, PREDICTION) == (unchanged, "")


@pytest.mark.parametrize("status", [404, 410])
def test_not_found_and_gone_say_that_the_page_is_gone(status: int) -> None:
    response = html(b"no such page", status=status)
    gone = Visit(PAGE, AT, News.GONE, prediction=PREDICTION, bytes=12)
    assert observe(response, PAGE, AT, RULES, PREDICTION) == (gone, "gone")


@pytest.mark.parametrize("status", [200, 304, 404, 500])
def test_an_answer_from_the_http_cache_is_no_visit_whatever_its_status(status: int) -> None:
    assert observe(html(status=status, flags=["cached"]), PAGE, AT, RULES) == (None, "cached")


@pytest.mark.parametrize(
    ("body", "watch", "flags", "attempts"),
    [
        *[(TWO_LINKS, watch, ["dataloss"], 3) for watch in ("links", "css:a")],
        *[(TWO_LINKS + end, "css:a", [], 3) for end in (b"<a href='/thr", b"last words</")],
        (TWO_LINKS + b"<a href='/thr", "links", [], 2),
        (b"<html><main>" + TWO_LINKS + b"last words", "links", [], 0),
        (b"<html><main>" + TWO_LINKS + b"last words</main>.", "css:a", [], 0),
        *[(TWO_LINKS + end, "css:a", [], 0) for end in (b"</a", b"3 < 5, I <3 it", b"<!-- x -->")],
        (gzip.compress(TWO_LINKS, mtime=0), "css:a", [], 0),
    ],
)
def test_an_answer_without_its_end_tells_nothing(
    body: bytes, watch: str, flags: list[str], attempts: int
) -> None:
    rules = mark_rules(watch) or RULES
    response, tried = html(body, flags=flags), [Page(PAGE, failures=n) for n in range(3)]
    reasons = [observe(response, PAGE, AT, rules, page=page).reason for page in tried]
    assert reasons == ["truncated"] * attempts + [""] * (3 - attempts)
    assert attempts or seen(response, rules).marks


@pytest.mark.parametrize(
    ("before", "now", "reason"),
    [
        (b"</div></html>", b"last wor", "truncated"),
        (b"</div></html>", b"last words</DIV>", ""),
        (b"last words", b"other words", ""),
    ],
)
def test_html_that_ends_inside_an_element_and_had_its_end_before_tells_nothing(
    before: bytes, now: bytes, reason: str
) -> None:
    rules = mark_rules("css:a")
    assert rules is not None
    page = merged(Page(PAGE), seen(html(b"<div>" + TWO_LINKS + before), rules)).after
    assert observe(html(b"<div>" + TWO_LINKS + now), PAGE, AT, rules, page=page).reason == reason


@pytest.mark.parametrize(
    ("body", "is_page"),
    [
        (TWO_LINKS, True),
        (b" \n<!-- news -->" + TWO_LINKS, True),
        (b"<ul><li>" + TWO_LINKS, True),
        (b"News: " + TWO_LINKS, False),
        (b"<urlset><url>" + TWO_LINKS, False),
        (b'{"html": "<p>"}' + TWO_LINKS, False),
    ],
)
def test_without_a_content_type_a_fragment_of_html_is_a_page(body: bytes, is_page: bool) -> None:
    response = responsetypes.from_args(url=PAGE, body=body)(PAGE, body=body)
    assert type(response) is TextResponse, "as Scrapy has it"
    if is_page:
        assert seen(response).marks == fingerprints("/one", "http://b.example/two")
    else:
        assert why_not_seen(response) == "other_type"


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        *((html(status=status), "status") for status in (301, 400, 403, 429, 500, 503, 999)),
        *(
            (kind(PAGE, body=TWO_LINKS, headers={"Content-Type": "text/plain"}), "other_type")
            for kind in (Response, TextResponse, XmlResponse)
        ),
        *((html(body), "empty") for body in (b"", b" \r\n\t\n")),
        *((html(start + TWO_LINKS), "unreadable") for start in (b"%PDF-1.7\n", b"GIF89a\0\0")),
        (html(b"<meta charset=punycode>" + TWO_LINKS), "unreadable"),
        (html(gzip.compress(TWO_LINKS)[:10] + b"\xff" * 40), "unreadable"),
    ],
)
def test_what_is_no_page_or_cannot_be_read_tells_nothing(response: Response, reason: str) -> None:
    assert why_not_seen(response) == reason


def test_pages_in_utf_16_are_read_though_they_are_full_of_nul_bytes() -> None:
    response = html(TWO_LINKS.decode().encode("utf-16"), encoding="utf-16")
    assert seen(response).marks == fingerprints("/one", "http://b.example/two")


@pytest.mark.parametrize(
    ("body", "links"),
    [
        (b"<a href=x.pdf>" * 2000, ["/x.pdf"]),
        (b"<html>\xff\xfe<a href=fine.html>\xfc</a><a href=http://[>", ["/fine.html"]),
        (b"<" * 5000, []),
        (b"<a href='/" + b"x" * 200_000 + b"'>long</a>", ["/" + "x" * 200_000]),
        (b"<p>" * 200 + b"<a href=deep.html>deep</a>", ["/deep.html"]),
        (b"<a href=/one<a href='/two", []),
    ],
    ids=["unclosed", "undecodable", "brackets", "long", "deep", "cut off"],
)
def test_of_broken_html_the_links_are_those_that_can_be_read(body: bytes, links: list[str]) -> None:
    visit, _ = observe(html(body), PAGE, AT, RULES, page=Page(PAGE, failures=2))
    assert (visit.marks or frozenset()) == fingerprints(*links)


def known_after(response: Response, rules: LinkRules = RULES) -> Page:
    """What is known of the page after a response."""
    return merged(Page(PAGE), seen(response, rules)).after


@pytest.mark.parametrize("body", [TWO_LINKS, b"<area href=/one>", b"<iframe src=/one></iframe>"])
def test_links_of_the_source_of_the_last_visit_are_those_of_that_visit(body: bytes) -> None:
    known = known_after(html(body))
    known.spells.marks[0] = 99
    visit, _ = observe(html(b"<p>News</p>" + body), PAGE, AT + 1, RULES, page=known)
    assert visit.marks == {*known.spells.marks}


def test_of_the_body_of_the_last_visit_no_tree_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    before = seen(html())
    known = known_after(html())
    monkeypatch.setattr("hacs_crawler.crawl.observation.tree_of", None)
    visit, _ = observe(html(), PAGE, AT + 1, RULES, page=known)
    assert visit == replace(before, at=AT + 1)


@pytest.mark.parametrize(
    ("changed", "rules"),
    [
        ({"body": TWO_LINKS + b"<a href=/three>"}, RULES),
        ({"body": b"<base href=http://b.example/>" + TWO_LINKS}, RULES),
        ({"body": TWO_LINKS.replace(b"/one", b"/two")}, RULES),
        ({"url": "http://a.example/folder/"}, RULES),
        ({}, LinkRules(deny=(re.compile("two"),))),
    ],
)
def test_of_another_source_or_by_other_rules_links_are_read_anew(
    changed: dict[str, Any], rules: LinkRules
) -> None:
    known = known_after(html())
    visit, _ = observe(html(**changed), PAGE, AT + 1, rules, page=known)
    assert visit == replace(seen(html(**changed), rules), at=AT + 1)
    assert not visit.marks or visit.hrefs != known.hrefs


def test_what_the_parser_gives_up_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RecursionError("elements nested too deeply")

    monkeypatch.setattr("hacs_crawler.crawl.observation.source_links", refuse)
    assert why_not_seen(html()) == "unreadable"


def test_what_takes_too_long_to_be_parsed_is_named(caplog: pytest.LogCaptureFixture) -> None:
    attributes = b" ".join(b"a%d" % number for number in range(10_000))
    assert why_not_seen(html(b"<p " + attributes + b">" + TWO_LINKS)) == "markup"
    assert caplog.messages == [f"{PAGE} is not read: it has a tag with more than 500 attributes"]


def test_of_a_page_one_tree_is_made_whoever_looks_at_it() -> None:
    response = html()
    assert tree_of(response) is tree_of(response) is response.selector.root
    packed = html(gzip.compress(TWO_LINKS))
    assert tree_of(packed) is tree_of(packed)


def test_a_page_that_was_packed_twice_is_read_in_the_encoding_that_it_names_inside() -> None:
    body = '<meta charset="utf-8"><a href="/über?für=Öl">1</a>'.encode()
    packed = gzip.compress(body)
    assert seen(html(packed)).marks == seen(html(body)).marks
    assert seen(html(packed)).bytes == len(packed), "the size of the answer, not of the page"


def test_validators_go_back_as_they_came_also_where_they_are_not_ascii() -> None:
    etag = '"é"'.encode()
    assert seen(html(headers={"ETag": etag})).etag.encode("latin-1") == etag
