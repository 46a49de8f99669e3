"""URIs of mementos, and links that an archive has rewritten to them."""

import pytest
from lxml.html import fromstring
from parsel import Selector

from hacs_crawler.archive import Rewriting, original_of, payload_links, raw_uri, timestamp_of
from hacs_crawler.links.extract import link_fingerprints

URL = "http://foo.edu/~bar/"
MEMENTO = "https://web.archive.org/web/20171124151315id_/http://foo.edu/~bar/"
BAR = (
    "<!-- BEGIN WAYBACK TOOLBAR INSERT --><a href='https://archive.org/'>x</a>"
    "<a href='/web/20171124151315/http://web.archive.org/screenshot/http://foo.edu/'>x</a>"
    "<!-- END WAYBACK TOOLBAR INSERT -->"
)


def links(html: str, memento: str | None = MEMENTO) -> frozenset[int] | None:
    rewriting = None if memento is None else Rewriting(memento)
    return payload_links(html.encode(), {}.get, URL, None, rewriting)


def plain(*hrefs: str) -> frozenset[int]:
    return link_fingerprints(fromstring("".join(f'<a href="{one}">x</a>' for one in hrefs)), URL)


@pytest.mark.parametrize(
    ("uri", "at", "original"),
    [
        ("http://archive.example/web/20171124151315/http://a.org/", 1511536395, "http://a.org/"),
        ("http://archive.example/coll/2017/a.org/x", 1483228800, "a.org/x"),
        ("http://archive.example/web/20171124151315*/http://a.org/", None, ""),
        ("http://archive.example/429.html", None, ""),
        ("http://archive.example/web/", None, ""),
    ],
)
def test_a_mementos_uri_names_time_and_page(uri: str, at: int | None, original: str) -> None:
    assert (timestamp_of(uri), original_of(uri)) == (at, original)


@pytest.mark.parametrize(
    "href",
    [
        "/web/20171124151315/http://b.org/x",
        "http://web.archive.org/web/20171124151315/http://b.org/x",
        "https://web.archive.org/web/20171124151315id_/http://b.org/x",
        " //web.archive.org/web/20171124151315mp_/http://b.org/x",
    ],
)
def test_a_rewritten_link_is_what_it_was(href: str) -> None:
    html = f"{BAR}<a href='{href}'>x</a><a href='cv.html'>x</a><a href='#top'>x</a>"
    assert links(html) == plain("http://b.org/x", "cv.html", "#top")


def test_of_a_rewritten_page_the_base_counts_as_it_was_and_the_archives_own_links_do_not() -> None:
    html = (
        "<a href='/web/20171124151315/http://b.org/'>x</a><a href='https://archive.org/donate'>x</a>"
        "<a href='/web/20160101000000/http://foo.edu/~bar/'>the capture before</a>"
        "<a href='/web/20171124151315/mailto:a@b.org'>x</a><a href='http://[x'>x</a>"
    )
    assert links(html) == plain("http://b.org/")
    base = "<base href='/web/20171124151315/http://c.org/x/'><a href='y'>x</a>"
    assert links(base + html) == plain("http://c.org/x/y", "http://b.org/")


@pytest.mark.parametrize(
    "href",
    [
        "http://web.archive.org/web/20100101000000/http://b.org/",  # of another time
        "http://other.org/web/20171124151315/http://b.org/",  # in another archive
        "x.html",
        "/web/",
    ],
)
def test_a_page_that_was_not_rewritten_stays_as_it_is(href: str) -> None:
    html = f"<a href='{href}'>x</a><a href='https://archive.org/donate'>x</a>"
    assert links(html) == links(html, None)


def test_an_answer_whose_address_names_no_memento_stays_as_it_is() -> None:
    html = "<a href='/web/20171124151315/http://b.org/'>x</a>"
    assert links(html, "http://web.archive.org/x") == links(html, None)
    assert not Rewriting(MEMENTO).is_in(None)
    assert not Rewriting(MEMENTO).is_in(Selector("<p>", type="html").root)


@pytest.mark.parametrize(
    ("uri", "raw"),
    [
        (
            "http://x.org/web/20171124151315/http://a.org/",
            "http://x.org/web/20171124151315id_/http://a.org/",
        ),
        ("http://x.org/c/2017mp_/http://a.org/", "http://x.org/c/2017id_/http://a.org/"),
        ("http://x.org/c/2017id_/http://a.org/", "http://x.org/c/2017id_/http://a.org/"),
        ("https://perma.example/ABCD-1234", "https://perma.example/ABCD-1234"),
    ],
)
def test_a_memento_is_asked_for_as_it_was_archived(uri: str, raw: str) -> None:
    assert raw_uri(uri) == raw


def test_a_memento_that_takes_too_long_to_be_parsed_shows_no_links_and_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tag = f"<p {' '.join(f'a{number}' for number in range(10_000))}>"
    assert payload_links(tag.encode(), {}.get, URL) is None
    said = f"{URL}, as archived, is not read: it has a tag with more than 500 attributes"
    assert caplog.messages == [said]
    hidden = BAR.replace("<!-- END", "<script><!-- END") + tag  # the script goes with the bar
    assert links(f"<a href='/web/20171124151315/{URL}x'>x</a>{hidden}") is None
    assert caplog.messages.count(said) == 2
