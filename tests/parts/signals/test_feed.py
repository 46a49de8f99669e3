"""Feeds: which a page announces, and what they say of pages."""

from contextlib import suppress
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

import feedparser
import pytest
from lxml.html import fromstring

from hacs_crawler.parts.signals.feed import (
    MOST_ELEMENTS,
    MOST_FEED_BYTES,
    announced_feeds,
    read_feed,
)
from hacs_crawler.parts.signals.sitemap import SignalError

URL = "http://a.example/feed.xml"
NOW = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp())


def test_feeds_of_its_own_host_that_a_page_announces_are_found() -> None:
    page = fromstring(
        """<html><head>
        <link rel="alternate" type="application/rss+xml" href="/feed.xml">
        <link rel="ALTERNATE nofollow" type="Application/Atom+XML" href="atom.xml">
        <link rel="alternate" type="application/rss+xml" href="http://b.example/feed.xml">
        <link rel="alternate" type="text/html" href="/de/">
        <link rel="stylesheet" type="application/rss+xml" href="/x">
        <link rel="alternate" type="application/rss+xml" href="http://[">
        </head></html>"""
    )
    assert announced_feeds(page, "http://a.example/b/") == [
        "http://a.example/feed.xml",
        "http://a.example/b/atom.xml",
    ]


def test_entries_and_the_page_that_the_feed_is_of_are_signalled() -> None:
    body = b"""<rss version="2.0"><channel><link>http://a.example/</link>
        <item><link>http://a.example/1</link><pubDate>Sun, 01 Feb 2026 10:00:00 GMT</pubDate></item>
        <item><link>/2</link><pubDate>Mon, 02 Feb 2026 10:00:00 GMT</pubDate></item>
        <item><link>http://b.example/3</link><pubDate>Mon, 02 Feb 2026 10:00:00 GMT</pubDate></item>
        <item><link>http://a.example/4</link><pubDate>Mon, 02 Feb 2099 10:00:00 GMT</pubDate></item>
        <item><link>http://a.example/5</link></item>
        </channel></rss>"""
    listing = read_feed(body, URL, NOW)
    first, second = (int(datetime(2026, 2, day, 10, tzinfo=UTC).timestamp()) for day in (1, 2))
    assert listing.pages == {
        "http://a.example/1": first,
        "http://a.example/2": second,
        "http://a.example/": second,
    }
    assert listing.unread == 3


@pytest.mark.parametrize(
    "body",
    [b"", b"no feed", b"<html></html>", b"http://127.0.0.1:9/feed", b" " * (MOST_FEED_BYTES + 1)],
)
def test_what_is_no_feed_says_so(body: bytes) -> None:
    with pytest.raises(SignalError):
        read_feed(body, URL, NOW)


def test_entities_of_a_feed_are_not_expanded() -> None:
    levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    body = (
        f'<!DOCTYPE rss [<!ENTITY e0 "x">{levels}]><rss version="2.0"><channel><item>'
        "<link>http://a.example/1</link><pubDate>Mon, 02 Feb 2026 10:00:00 GMT</pubDate>"
        "<title>&e11;</title></item></channel></rss>"
    ).encode()
    assert set(read_feed(body, URL, NOW).pages) == {"http://a.example/1"}


ITEM = "<item><link>/1</link><pubDate>Mon, 02 Feb 2026 10:00:00 GMT</pubDate>{}</item>"
RSS = '<rss version="2.0"><channel>{}</channel></rss>'
DC = 'xmlns:dc="http://purl.org/dc/elements/1.1/"'


@pytest.mark.parametrize(
    "body",
    [
        f'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" {DC} '
        'xmlns="http://purl.org/rss/1.0/"><channel/><item><link>http://a.example/1</link>'
        "<dc:date>2026-02-02T10:00:00Z</dc:date></item></rdf:RDF>",
        '<a:feed xmlns:a="http://www.w3.org/2005/Atom"><a:entry><a:link href="/other" rel="related"/>'
        '<a:link href="/1"/><a:published>2026-01-01T00:00:00Z</a:published>'
        "<a:updated>2026-02-02T10:00:00Z</a:updated></a:entry></a:feed>",
        f"<rss {DC}><channel><item><guid>http://a.example/1</guid>"
        "<dc:date>2026-02-02T10:00:00Z</dc:date></item></channel></rss>",
        '<rss version="0.91"><channel><item><link><![CDATA[/1]]></link>'
        "<pubDate> Mon, 2 Feb 2026 11:00 +0100 </pubDate></item></channel></rss>",
        "\n" + RSS.format(ITEM.format("<title>&nbsp;<b>1 < 2 & 3</title>")),
        RSS.format(
            "<image><link>/logo</link></image>" + ITEM.format("<source><link>/2</link></source>")
        ),
        RSS.format(ITEM.format("<description>" + "x" * 100_000 + "</description>")),
        RSS.format(ITEM.format("<title>cut off"))[: -len("</item></channel></rss>")],
    ],
    ids=["RSS 1.0", "Atom", "guid", "RSS 0.91", "damaged", "other links", "long", "cut off"],
)
def test_links_and_times_are_found_in_feeds_of_all_kinds(body: str) -> None:
    expected = int(datetime(2026, 2, 2, 10, tzinfo=UTC).timestamp())
    assert read_feed(body.encode(), URL, NOW).pages == {"http://a.example/1": expected}


SLOW = {
    "attributes": RSS.format("<b " + " ".join(f'a{n}="1"' for n in range(30_000)) + "/>{}"),
    "attributes of an item": RSS.format("{}").replace(
        "<channel>", "<channel " + " ".join(f'a{n}="1"' for n in range(30_000)) + ">"
    ),
    "namespaces": RSS.format("".join(f'<b xmlns:a{n}="u{n}"/>' for n in range(30_000)) + "{}"),
    "categories": RSS.format(
        "<item>" + "".join(f"<category>{n}</category>" for n in range(30_000)) + "</item>{}"
    ),
    "an address": RSS.format("<item><author>" + "a." * 100_000 + "</author></item>{}"),
    "a declaration": '<?xml version="1.0" ' + 'encoding="' * 100_000 + "?>" + RSS.format("{}"),
    "entities": "<!DOCTYPE r ["
    + "".join(f'<!ENTITY e{n} "x">' for n in range(30_000))
    + "]>"
    + RSS.format("<title>" + "".join(f"&e{n};" for n in range(30_000)) + "</title>{}"),
    "a time": RSS.format("<item><pubDate>" + "1:" * 100_000 + "</pubDate></item>{}"),
}


@pytest.mark.parametrize("body", SLOW.values(), ids=SLOW)
def test_feedparser_is_given_nothing_that_it_takes_long_for(
    body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parse, given = feedparser.parse, []

    def note(stream: BytesIO, **options: bool) -> Any:
        given.append(stream.getvalue())
        return parse(stream, **options)

    monkeypatch.setattr(feedparser, "parse", note)
    with suppress(SignalError):
        read_feed(body.replace("{}", ITEM.format("")).encode(), URL, NOW)
    assert all(len(outline) < 1_000 for outline in given)


def test_of_a_feed_with_very_many_entries_the_first_are_read() -> None:
    items = "".join(
        f"<item><link>/{n}</link><pubDate>Mon, 02 Feb 2026 10:00:00 GMT</pubDate></item>"
        for n in range(MOST_ELEMENTS)
    )
    listing = read_feed(RSS.format(items).encode(), URL, NOW)
    assert MOST_ELEMENTS / 4 < len(listing.pages) < MOST_ELEMENTS / 2
