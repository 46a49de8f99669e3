"""TimeMaps in link format and JSON."""

import json
from collections import Counter

import pytest
from hypothesis import given, strategies as st

from hacs_crawler.archive import ArchiveError, is_timemap, parts_of, read_timemap, timemaps_in
from hacs_crawler.archive.timemap import TimeMapEntry

URL = "http://a.org/"
FIRST = TimeMapEntry(URL, 961_524_179, "http://arxiv.example.net/web/20000620180259/http://a.org/")
LAST = TimeMapEntry(URL, 1_256_690_463, "http://arxiv.example.net/web/20091028004103/http://a.org/")
LINKS = """<http://a.org/>;rel="original",
<http://arxiv.example.net/timemap/http://a.org/>
  ; rel="self";type="application/link-format"
  ; from="Tue, 20 Jun 2000 18:02:59 GMT"
  ; until="Wed, 09 Apr 2008 20:30:51 GMT",
<http://arxiv.example.net/timegate/http://a.org/>
  ; rel="timegate",
<http://arxiv.example.net/web/20000620180259/http://a.org/>
  ; rel="first memento";datetime="Tue, 20 Jun 2000 18:02:59 GMT"
  ; license="http://creativecommons.org/publicdomain/zero/1.0/",
<http://arxiv.example.net/web/20091028004103/http://a.org/>
   ; rel="last memento";datetime="Wed, 28 Oct 2009 00:41:03 GMT"
"""  # after RFC 7089, figure 28


def read(text: str) -> list[TimeMapEntry]:
    return list(read_timemap(text.encode(), "x.link", Counter()))


def as_json(*mementos: tuple[str, str]) -> str:
    rows = [{"datetime": date, "uri": uri} for date, uri in mementos]
    return json.dumps({"original_uri": URL, "self": "x", "mementos": {"list": rows, "first": {}}})


def test_link_format_of_the_rfc() -> None:
    original, rest = LINKS.split(",\n", 1)
    original_last, with_space = f"{rest.rstrip()},\n{original}", LINKS + " ,\n" * 1000
    for links in (LINKS, LINKS.replace("memento", "Memento"), original_last, with_space):
        assert read(links) == [FIRST, LAST]


@pytest.mark.parametrize(
    ("relations", "separator"),
    [
        (["first memento", "next memento", "last memento"], ", "),
        (["first memento", "memento", "first last memento"], ",\n"),
    ],
    ids=["Internet Archive, in the header Link", "archive.today"],
)
def test_link_format_of_archives(relations: list[str], separator: str) -> None:
    uris = [f"https://a.net/{year}0618185742/{URL}" for year in (2013, 2014, 2020)]
    dates = ["Tue, 18 Jun 2013", "Wed, 18 Jun 2014", "Thu, 18 Jun 2020"]
    links = [f'<{URL}>; rel="original"', f'<https://a.net/timegate/{URL}>; rel="timegate"']
    links += [
        f'<{uri}>; rel="{relation}"; datetime="{date} 18:57:42 GMT"'
        for uri, relation, date in zip(uris, relations, dates, strict=True)
    ]
    assert [entry.uri for entry in read(separator.join(links))] == uris


def test_a_timemap_names_its_other_parts_by_the_time_that_they_are_of() -> None:
    part = '<http://a.net/2>; rel="timemap"; from="Wed, 09 Apr 2008 20:30:51 GMT"'
    more = f', {part}, <http://a.net/json>; rel="timemap"; type="application/json"'
    assert parts_of((LINKS + more).encode()) == ["http://a.net/2"]
    assert parts_of(LINKS.encode()) == []
    assert parts_of(b'{"original_uri": "http://a.org/"}') == []


def test_of_a_timegates_timemaps_the_one_in_link_format_comes_first() -> None:
    header = (
        '<http://a.org/>; rel="original", <http://a.net/json>; rel="timemap"; type="application/json", '
        '<http://a.net/link>; rel="timemap"; type="application/link-format", <http://x>; rel="timegate"'
    )
    assert timemaps_in(header.encode()) == ["http://a.net/link", "http://a.net/json"]
    assert timemaps_in(b"") == []


@pytest.mark.parametrize("damaged", [b"<x", b"no link", b'<a>; rel="timemap'])
def test_a_damaged_link_header_is_an_error(damaged: bytes) -> None:
    with pytest.raises(ArchiveError, match="the Link header, character 0"):
        timemaps_in(damaged)


def test_json_of_memgator() -> None:
    text = as_json(("2000-06-20T18:02:59Z", FIRST.uri), ("2009-10-28T00:41:03Z", LAST.uri))
    assert read(text) == [FIRST, LAST]


def as_cdxj(*lines: str) -> str:
    head = [
        '!context ["https://oduwsdl.github.io/contexts/memento"]',
        '!id {"uri": "http://localhost:1208/timemap/cdxj/http://a.org/"}',
        '!keys ["memento_datetime_YYYYMMDDhhmmss"]',
        f'!meta {{"original_uri": "{URL}"}}',
        '!meta {"timegate_uri": "http://localhost:1208/timegate/http://a.org/"}',
    ]
    return "".join(f"{line}\n" for line in (*head, *lines))


def test_cdxj_of_memgator() -> None:
    rows = (
        f'20000620180259 {{"uri": "{FIRST.uri}", "rel": "first memento", "datetime": "x"}}',
        f'20091028004103 {{"uri": "{LAST.uri}", "rel": "last memento", "datetime": "x"}}',
    )
    assert read(as_cdxj(*rows)) == [FIRST, LAST]
    with pytest.raises(ArchiveError, match=r"x\.link, character \d+: not CDXJ"):
        read(as_cdxj(rows[0][:-9]))


@pytest.mark.parametrize("uri", ["http://b.org/a,b;c=d", 'http://b.org/?x="y"'])
def test_uris_may_hold_delimiters(uri: str) -> None:
    text = f'<{URL}>; rel=original, <{uri}>; rel=memento; datetime="Sun, 09 Sep 2001 01:46:40 GMT",'
    assert read(text) == [TimeMapEntry(URL, 1_000_000_000, uri)]


def test_mementos_without_a_date_are_counted() -> None:
    counts: Counter[str] = Counter()
    text = f'<{URL}>; rel="original", <x>; rel="memento", <y>; rel="memento"; datetime="soon"'
    assert list(read_timemap(text.encode(), "x", counts)) == []
    text = as_json(("2000-00-20T18:02:59Z", "x"))
    assert list(read_timemap(text.encode(), "x", counts)) == []
    assert counts == {"invalid_date": 3}


def test_a_memento_is_told_once() -> None:
    counts: Counter[str] = Counter()
    row = ("2000-06-20T18:02:59Z", FIRST.uri)
    assert list(read_timemap(as_json(row, row).encode(), "x", counts)) == [FIRST]
    assert counts == {"duplicate": 1}


def test_damaged_links_are_an_error_after_those_before() -> None:
    mementos = read_timemap(LINKS.replace("<http://arxiv.example.net/web/2009", "9").encode(),
                            "x.link", Counter())  # fmt: skip
    assert next(mementos) == FIRST
    with pytest.raises(ArchiveError, match=r"^x\.link, character \d+: not in link format"):
        next(mementos)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "character 0: ends without a link of rel=original"),
        ('<x>; rel="memento"', "character 18: ends without"),
        ("{", "character 1: Expecting property name"),
        ("{}", "character 0: not a JSON TimeMap"),
        ('{"mementos": {"list": [1]}}', "character 0: not a JSON TimeMap"),
        ('<mailto:a@b.c>; rel="original"', "character 0: the page is not an http"),
        ("<html>", "character 6: ends without"),
    ],
)
def test_what_is_no_timemap(text: str, problem: str) -> None:
    with pytest.raises(ArchiveError) as caught:
        read(text)
    assert str(caught.value).startswith(f"x.link, {problem}")


@pytest.mark.parametrize("filler", [" ", "a", ";a", "; ", ";a=", '"', ',"'])
def test_refusal_takes_linear_time(filler: str) -> None:
    with pytest.raises(ArchiveError):
        read(f"<{URL}>;rel=original,<x>;a{filler * 100_000}<")


def test_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hacs_crawler.archive.timemap.MAX_TIMEMAP_BYTES", 99)
    with pytest.raises(ArchiveError, match="x, byte 99: longer than"):
        list(read_timemap(LINKS.encode(), "x", Counter()))


@given(st.text('<>;,="\\ relmntodai:/', max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        mementos = read(text)
    except ArchiveError:
        return
    assert all(memento.url.startswith("http") for memento in mementos)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (LINKS, True),
        ("\ufeff\n" + LINKS, True),
        (as_json(), True),
        (as_cdxj(), True),
        ('!context ["x"]\n!meta {"generator": "IPWB"}\norg,a)/ 2001 {"a": 1}\n', False),
        (json.dumps(json.loads(as_json()), indent=2, sort_keys=True), True),
        ("", False),
        ("<!DOCTYPE html>\n<html><p>; rel=x</p></html>", False),
        ("<html>;</html>", False),
        ('{"urlkey": "org,a)/", "timestamp": "20000620180259", "url": "http://a.org/"}', False),
        ('[["urlkey","timestamp","original"],["org,a)/","20000620180259","http://a.org/"]]', False),
        ("org,a)/ 20000620180259 http://a.org/ text/html 200 A 1", False),
    ],
)
def test_a_timemap_is_told_by_its_beginning(text: str, is_one: bool) -> None:
    assert is_timemap(text.encode()) is is_one


@pytest.mark.parametrize(
    "beginning", [b"<" * 65_536, b"{" * 65_536, b"<a> ;" * 13_000, b" ," * 32_768]
)
def test_telling_takes_no_time_whatever_the_file_is(beginning: bytes) -> None:
    assert is_timemap(beginning) is False
