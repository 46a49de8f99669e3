"""Sitemaps as they come: honest, packed, damaged, and made to do harm."""

import gzip
from datetime import UTC, datetime

import pytest

from hacs_crawler.parts.signals.sitemap import (
    MOST_BYTES,
    MOST_ENTRIES,
    SignalError,
    read_pings,
    read_sitemap,
    second_of,
    sitemaps_of_robots,
)

URL = "http://a.example/sitemap.xml"
NOW = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp())
NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def sitemap(*entries: tuple[str, str]) -> bytes:
    urls = "".join(
        f"<url><loc>{loc}</loc><lastmod>{lastmod}</lastmod></url>" for loc, lastmod in entries
    )
    return f'<?xml version="1.0"?><urlset {NAMESPACE}>{urls}</urlset>'.encode()


def second(*numbers: int) -> int:
    return int(datetime(*numbers, tzinfo=UTC).timestamp())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-02T03:04:05Z", second(2026, 1, 2, 3, 4, 5)),
        ("2026-01-02T03:04:05+02:00", second(2026, 1, 2, 1, 4, 5)),
        ("2026-01-02T03:04", second(2026, 1, 2, 3, 4)),
        ("2026-01-02", second(2026, 1, 3) - 1),
        ("2026-03-01", second(2026, 3, 2) - 1),
        ("20260102", second(2026, 1, 3) - 1),
        (" 2026-W01-5 ", second(2026, 1, 3) - 1),
        ("20260102T030405Z", second(2026, 1, 2, 3, 4, 5)),
        ("2026-03-05", None),
        ("1969-12-01", None),
        ("0001-01-01T00:00:00+14:00", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_a_time_is_read_as_it_is_meant_and_a_wrong_one_is_none(
    text: str, expected: int | None
) -> None:
    assert second_of(text, NOW) == expected


def test_pages_come_with_the_time_of_their_latest_change() -> None:
    listing = read_sitemap(
        sitemap(
            ("http://a.example/1", "2026-01-02T00:00:00Z"),
            ("http://a.example/1", "2026-01-03T00:00:00Z"),
            ("/2", "2026-01-02T00:00:00Z"),
        ),
        URL,
        NOW,
    )
    assert listing.pages == {
        "http://a.example/1": second(2026, 1, 3),
        "http://a.example/2": second(2026, 1, 2),
    }


@pytest.mark.parametrize(
    ("loc", "time"),
    [
        *[(f"http://{host}/1", "2026-01-02") for host in ("b.example", "www.a.example")],
        ("http://a.example:8080/1", "2026-01-02"),
        *[(loc, "2026-01-02") for loc in ("//b.example/1", "ftp://a.example/1")],
        *[(loc, "2026-01-02") for loc in ("http://[a.example/1", "javascript:1", "")],
        *[("/1", time) for time in ("soon", "", "2999-01-01")],
    ],
)
def test_what_is_of_another_host_or_no_page_or_without_a_usable_time_is_passed_over(
    loc: str, time: str
) -> None:
    listing = read_sitemap(sitemap((loc, time)), URL, NOW)
    assert (listing.pages, listing.unread) == ({}, 1)


def test_the_files_of_an_index_on_its_own_host_come_newest_first() -> None:
    entries = ((1, "<lastmod>2025-01-01</lastmod>"), (2, ""), (3, "<lastmod>2025-02-01</lastmod>"))
    files = "".join(f"<sitemap><loc>/{n}.xml</loc>{time}</sitemap>" for n, time in entries)
    files += "<sitemap><loc>http://b.example/s2.xml</loc></sitemap>"
    body = f"<sitemapindex {NAMESPACE}>{files}</sitemapindex>"
    found = read_sitemap(body.encode(), URL, NOW).files
    assert found == [f"http://a.example/{number}.xml" for number in (3, 1, 2)]


@pytest.mark.parametrize("loc", ["/a?x=1&y=2", "/a?x=1&amp;y=2", "<![CDATA[/a?x=1&y=2]]>"])
def test_an_address_with_a_query_is_whole_escaped_or_not(loc: str) -> None:
    body = f"<urlset><url><loc>{loc}</loc><lastmod>2025-01-01</lastmod></url></urlset>"
    assert [*read_sitemap(body.encode(), URL, NOW).pages] == ["http://a.example/a?x=1&y=2"]


def test_packed_sitemaps_are_unpacked_up_to_a_size() -> None:
    body = sitemap(("/1", "2026-01-02"))
    assert read_sitemap(gzip.compress(body), URL, NOW).pages
    with pytest.raises(SignalError, match="unpacked"):
        read_sitemap(gzip.compress(b" " * (MOST_BYTES + 1)), URL, NOW)
    with pytest.raises(SignalError, match="larger"):
        read_sitemap(body + b" " * MOST_BYTES, URL, NOW)


def test_pings_come_without_the_heading_and_empty_lines() -> None:
    first, second = "http://a.example/1", "http://a.example/2"
    lines = ["URL,time", "", " , ", f"{first},1000000000", second]
    assert [*read_pings(lines, "pings", NOW)] == [(first, 1_000_000_000), (second, NOW)]
    for number, wrong in enumerate((["no page,1"], [second, "url,time"]), 1):
        with pytest.raises(SignalError, match=f"pings, line {number}"):
            list(read_pings(wrong, "pings", NOW))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-7"])
def test_a_sitemap_that_declares_entities_is_not_read(encoding: str) -> None:
    text = (
        f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE u [<!ENTITY e "x">]>'
        f"<urlset {NAMESPACE}><url><loc>/&e;</loc><lastmod>2026-01-02</lastmod></url></urlset>"
    )
    body = text.encode(encoding)
    if encoding == "utf-7":
        body = body.replace(b"<!ENTITY", b"+ADwAIQ-ENTITY")
    with pytest.raises(SignalError, match="entities"):
        read_sitemap(body, URL, NOW)


def test_damaged_xml_is_read_as_far_as_it_goes() -> None:
    body = sitemap(("/1", "2026-01-02"), ("/2", "2026-01-02"))
    assert len(read_sitemap(body[:-30], URL, NOW).pages) >= 1


def test_not_more_entries_are_read_than_a_sitemap_may_have() -> None:
    body = sitemap(*((f"/{n}", "2026-01-02") for n in range(MOST_ENTRIES + 5)))
    assert len(read_sitemap(body, URL, NOW).pages) == MOST_ENTRIES


@pytest.mark.parametrize("body", [b"", b"not xml", b"<html><body/></html>", b"\x1f\x8bdamaged"])
def test_what_is_no_sitemap_says_so(body: bytes) -> None:
    with pytest.raises(SignalError):
        read_sitemap(body, URL, NOW)


def test_robots_txt_names_sitemaps_of_its_own_host() -> None:
    body = (
        b"User-agent: *\nDisallow: /private\nSitemap: /one.xml\n"
        b"sitemap: http://a.example/two.xml\nSitemap: http://b.example/s.xml\nSitemap: \xff\n"
        b"Sitemap: http://[::1/x\nSitemap: http://a.example:x/\nSitemap: /one.xml\n"
    )
    expected = ["http://a.example/one.xml", "http://a.example/two.xml"]
    assert sitemaps_of_robots(body, "http://a.example/robots.txt") == expected
