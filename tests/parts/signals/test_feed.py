"""Feeds: which a page announces, and what they say of pages."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from lxml.html import fromstring

from hacs_crawler.parts.signals.feed import MOST_FEED_BYTES, announced_feeds, read_feed
from hacs_crawler.parts.signals.listing import SignalError

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


def test_an_atom_entry_counts_from_its_update() -> None:
    body = b"""<feed xmlns="http://www.w3.org/2005/Atom"><entry><link href="http://a.example/1"/>
        <published>2026-01-01T00:00:00Z</published><updated>2026-02-01T00:00:00Z</updated>
        </entry></feed>"""
    expected = int(datetime(2026, 2, 1, tzinfo=UTC).timestamp())
    assert read_feed(body, URL, NOW).pages == {"http://a.example/1": expected}


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
        "<title>&e11;</title>"
        "<link>http://a.example/1</link><pubDate>Mon, 02 Feb 2026 10:00:00 GMT</pubDate></item>"
        "</channel></rss>"
    ).encode()
    assert set(read_feed(body, URL, NOW).pages) == {"http://a.example/1"}
