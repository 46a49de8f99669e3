"""Capture indexes in every dialect, and what their digests say."""

import contextlib
import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from hacs_crawler.archive import ArchiveError, Capture, read_cdx, visits_by_digest
from hacs_crawler.archive.capture import REVISIT, content_type, parse_timestamp
from hacs_crawler.links import page_key
from state_support import page_after

A, B = "A" * 32, "B" * 32
PNG = "image/png"
URL = "http://a.org/"
AT = 1_000_000_000  # 2001-09-09 01:46:40
ROW = f"org,a)/ 20010909014640 {URL} text/html 200 {A}"
CAPTURE = Capture("org,a)/", URL, AT, 200, "text/html", A)


def read(*lines: str) -> list[Capture]:
    return list(read_cdx((line.encode() + b"\n" for line in lines), "x.cdx", Counter()))


def dropped(*lines: str) -> dict[str, int]:
    counts: Counter[str] = Counter()
    list(read_cdx((line.encode() + b"\n" for line in (ROW + " - - 9 9 f.gz", *lines)), "x", counts))
    return dict(counts)


def row(time: str = "20010909014641", url: str = URL, mime: str = "text/html",
        status: str = "200", digest: str = A) -> str:  # fmt: skip
    return f"org,a)/ {time} {url} {mime} {status} {digest} - - 9 9 f.gz"


@pytest.mark.parametrize(
    "lines",
    [
        [" CDX N b a m s k r M S V g", f"{ROW} - - 1043 333 a.warc.gz"],
        [f"{ROW} - - 1043 333 a.warc.gz"],
        [" CDX N b a m s k r V g", f"{ROW} - 333 a.arc.gz"],
        [f"{ROW} - 333 a.arc.gz"],
        [f"{ROW} 1043"],
        [f"{ROW} - - 1043 333 a.warc.gz 1"],
        [f"{ROW} - - 1043 333 a.warc.gz 1043 3 b.warc.gz"],
        [f"{ROW} - - 1043 333 a.warc.gz".replace(" ", "\t")],
        *(
            [f"{one}CDX N b a m s k r V g".replace(" ", one), f"{ROW} - 3 a.gz".replace(" ", one)]
            for one in "\t|"
        ),
        ["CDX N b a m s k r V g", f"{ROW} - 333 a.arc.gz"],
        [" CDX a b k s m", f"{URL} 20010909014640 {A} 200 text/html"],
        [" CDX a b c s m", f"{URL} 20010909014640 {A} 200 text/html"],
        [
            "!OpenWayback-CDXJ 1.0",
            'org,a)/ 20010909014640 {"url": "http://a.org/", "mime": "text/html", '
            f'"status": "200", "digest": "sha1:{A}", "filename": "a b.gz"}}',
        ],
        [
            '[["urlkey","timestamp","original","mimetype","statuscode","digest","length"],',
            f'["org,a)/","20010909014640","{URL}","text/html","200","{A}","1043"]]',
        ],
        [
            '[["original","timestamp","digest","statuscode","mimetype"],'
            f'["{URL}","20010909014640","{A}","200","text/html"]]'
        ],
        [
            '{"urlkey": "org,a)/", "timestamp": "20010909014640", "url": "http://a.org/", '
            f'"mime": "text/html", "status": "200", "digest": "{A}"}}'
        ],
    ],
)
def test_dialects(lines: list[str]) -> None:
    assert read(*lines) == [CAPTURE]


@pytest.mark.parametrize("lines", [[f"{ROW} 1", "", "org%2Ca%29%2F+2001"],
                                   [f'[["org,a)/","20010909014640","{URL}","text/html","200","{A}"],',
                                    "[],", '["org%2Ca%29%2F+2001"]]']])  # fmt: skip
def test_resume_key_is_no_row(lines: list[str]) -> None:
    counts: Counter[str] = Counter()
    assert list(read_cdx((line.encode() for line in lines), "x", counts)) == [CAPTURE]
    assert not counts


@pytest.mark.parametrize("lines", [[], ["[]"], ["[", "]"], [" CDX N b a m s k r M S V g"]])
def test_index_without_rows(lines: list[str]) -> None:
    assert read(*lines) == []


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        *((row(time=day + "014641"), "invalid_date") for day in ("20010009", "20010900")),
        *((row(time=time), "invalid_date") for time in ("19690101000000", "x")),
        *((row(digest=digest), "invalid_digest") for digest in ("-", "AAAA")),
        *((row(status=status), "bad_status") for status in ("404", "429", "503", "302")),
        (row(mime=REVISIT, status="302"), "bad_status"),
        (row(mime="image/png"), "not_html"),
        *((row(url=url), "not_http") for url in ("mailto:ada@a.org", "dns:a.org")),
        *(
            (row(url=f"http://a.org{rest}"), "malformed")
            for rest in (":99999/", ":0/", "/\x1b[31m")
        ),
        (row(status="OK"), "malformed"),
        (ROW + " - - 9 9 f.gz", "duplicate"),
        ("too few", "malformed"),
        ("org,a)/ 2001 {broken", "malformed"),
        ('{"url": 1, "timestamp": "2001"}', "malformed"),
        ("[1", "malformed"),
    ],
)
def test_dropped_rows_are_counted_by_kind(line: str, kind: str) -> None:
    assert dropped(line) == {kind: 1}


@pytest.mark.parametrize("line", [b"\xff\xfe\n", b"[" * 100_000])
def test_bytes_that_are_no_utf_8_and_json_nested_without_end_are_malformed(line: bytes) -> None:
    counts: Counter[str] = Counter()
    assert list(read_cdx([line, f"{ROW} 1\n".encode()], "x", counts)) == [CAPTURE]
    assert counts == {"malformed": 1}


@pytest.mark.parametrize(
    "mime", ["text/html", "application/xhtml+xml", "unk", "-", "text/html;x=y"]
)
def test_html_and_unknown_types_are_kept(mime: str) -> None:
    assert [capture.mime for capture in read(row(mime=mime))] == [mime]


@pytest.mark.parametrize(
    ("status", "mime", "kind"),
    [("404", "text/html", "bad_status"), ("301", "unk", "bad_status"), ("200", PNG, "not_html")],
)
def test_a_revisit_of_what_is_no_capture_is_none(status: str, mime: str, kind: str) -> None:
    error = row(status=status, mime=mime, digest=B)
    revisit = row("20010909014642", mime=REVISIT, status="-", digest=B)
    assert dropped(error, revisit) == {kind: 2}


@pytest.mark.parametrize(
    "lines",
    [
        [row(), row(status="404"), row(mime=REVISIT, status="-")],  # the page itself shows it too
        [row(status="404"), row(), row(mime=REVISIT, status="-")],
        [row(status="404"), row(mime=REVISIT, status="200")],
        [row(url="http://b.org/", status="404"), row(mime=REVISIT, status="-")],
        [row(status="404"), row(mime=REVISIT, status="-", digest="-")],
        *([row(mime=REVISIT, status=status)] for status in ("-", "200", "304")),
        *([row(mime=REVISIT, status=status, digest="-")] for status in ("-", "200", "304")),
    ],
)
def test_other_revisits_are_captures(lines: list[str]) -> None:
    last = read(*lines)[-1]
    assert last.is_revisit
    assert last.digest == lines[-1].split()[5].strip("-")


@pytest.mark.parametrize(
    ("text", "same_as"),
    [
        ("2001", "20010101000000"),
        ("200102", "20010201000000"),
        ("20010203", "20010203000000"),
        ("2001020304", "20010203040000"),
        ("20010203040506789", "20010203040506"),
    ],
)
def test_timestamps_of_other_lengths(text: str, same_as: str) -> None:
    assert parse_timestamp(text) == parse_timestamp(same_as) is not None


def test_file_in_no_dialect_is_an_error_that_names_it() -> None:
    with pytest.raises(ArchiveError, match=r"^x\.cdx, line 1 to the end: not one of 2 rows is CDX"):
        read("<html>", "<p>Sign in</p>")


def test_rows_are_read_as_they_are_asked_for_until_the_source_fails() -> None:
    def lines() -> Iterator[bytes]:
        yield f"{ROW} 1".encode()
        raise EOFError("gone")

    captures = read_cdx(lines(), "x.cdx.gz", Counter())
    assert next(captures) == CAPTURE
    with pytest.raises(ArchiveError, match=r"x\.cdx\.gz, after line 1: cannot read: gone"):
        next(captures)


def capture(at: int, digest: str, mime: str = "text/html", url: str = URL) -> Capture:
    return Capture(page_key(url), url, at, None, mime, digest)


def changes(*captures: Capture) -> list[tuple[int, bool]]:
    page = page_after(*visits_by_digest(captures))
    return [(at, at in page.update_times) for at in page.visits]


def test_an_index_of_ipwb_names_contents_by_their_addresses() -> None:
    one, other = (f"urn:ipfs/Qm{'x' * 44}/Qm{letter * 44}" for letter in "ab")
    rows = [
        f'org,a)/ 200109090146{second} {{"locator": "{locator}", "original_uri": "{URL}", '
        '"mime_type": "text/html", "status_code": "200"}'
        for second, locator in ((40, one), (41, one), (42, other))
    ]
    captures = read('!context ["https://tools.ietf.org/html/rfc7089"]', *rows)
    assert [(at - AT, is_change) for at, is_change in changes(*captures)] == [
        (0, False), (1, False), (2, True)]  # fmt: skip


def test_an_older_index_of_ipwb_names_contents_by_their_digests() -> None:
    values = {"mime_type": "text/html", "status_code": "200", "payload_digest": f"sha1:{A}"}
    assert read(f"org,a)/ 20010909014640 {json.dumps(values)}") == [CAPTURE]


@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize(
    "lines",
    [
        [row(url=f"{URL}logo", mime=PNG), row(url=f"{URL}logo", mime=REVISIT, status="-")],
        [
            row(url=f"{URL}logo", mime=PNG),
            row(url=f"{URL}logo", mime=PNG, digest=B),
            row(url=f"{URL}logo", mime=REVISIT, status="-"),
        ],
        *(
            [row(url=f"{URL}{name}", mime=REVISIT, status="-")]
            for name in ("a.png", "a.css?v=1", "A.WOFF2", "a.js")
        ),
    ],
)
def test_a_revisit_of_an_image_is_not_a_page(lines: list[str], is_sorted: bool) -> None:
    counts: Counter[str] = Counter()
    raw = [line.encode() for line in (ROW + " - - 9 9 f.gz", *lines)]
    assert list(read_cdx(raw, "x", counts, is_sorted=is_sorted)) == [CAPTURE]
    assert counts == {"not_html": len(lines)}


def test_a_page_whose_url_ends_as_images_do_has_revisits() -> None:
    page = row(url="http://a.org/File:a.jpg")
    again = row(time="20010909014650", url="http://a.org/File:a.jpg", mime=REVISIT, status="-")
    assert len(read(page, again)) == 2


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("text/html, text/html; charset=utf-8", "text/html; charset=utf-8"),
        ("text/html;charset=gbk, text/html", "text/html; charset=gbk"),
        ("text/html;charset=gbk, text/plain", "text/plain"),
        ("text/plain, */*", "text/plain"),
        ("text/html, nonsense", "text/html"),
        ("TEXT/HTML", "text/html"),
        ("unk", "unk"),
        ("", ""),
    ],
)
def test_a_repeated_content_type_is_read_as_browsers_do(text: str, found: str) -> None:
    assert content_type(text) == found


def test_a_row_without_a_url_is_of_the_page_that_its_key_names() -> None:
    locator = f"urn:ipfs/Qm{'x' * 44}/Qm{'a' * 44}"
    (found,) = read(f'org,a,www:8080)/b?c 2001 {{"locator": "{locator}", "status_code": "200"}}')
    assert (found.url, found.page_key) == ("http://www.a.org:8080/b?c", "org,a:8080)/b?c=")


REVISITS = capture(2, A, REVISIT), capture(4, B, REVISIT)


@pytest.mark.parametrize(
    ("captures", "visits", "changed"),
    [
        ([capture(at, digest) for at, digest in enumerate((A, A, B, B, A), 1)], 5, {3, 5}),
        # a revisit is a visit without change
        ([capture(1, A), capture(2, "", REVISIT), capture(3, A),
          replace(capture(4, B, REVISIT), status=200)], 4, set()),
        # one of what is not known counts once it is
        (REVISITS, 0, set()),
        ([*REVISITS, capture(1, A)], 2, set()),
        ([*REVISITS, capture(1, A), capture(3, B)], 4, {3}),
    ],
)  # fmt: skip
def test_a_differing_digest_is_a_change_and_the_first_row_is_none(
    captures: list[Capture], visits: int, changed: set[int]
) -> None:
    assert changes(*captures) == [(at, at in changed) for at in range(1, visits + 1)]


def test_pages_are_not_compared_with_each_other() -> None:
    visits = list(visits_by_digest([capture(1, A), capture(2, B, url="http://b.org/")]))
    assert [(one.url, one.at) for one in visits] == [(URL, 1), ("http://b.org/", 2)]


def test_captures_of_one_second_are_one_visit() -> None:
    found = changes(capture(1, A), capture(2, B), capture(2, A), capture(3, B))
    assert [at for at, _ in found] == [1, 2, 3]
    assert sum(is_change for _, is_change in found) == 1


def test_a_capture_without_digest_is_no_evidence() -> None:
    assert changes(capture(1, A), capture(2, ""), capture(3, B)) == [(1, False), (3, True)]


def test_digests_of_other_algorithms_are_not_compared() -> None:
    md5, sha1 = "0" * 32, "00" * 20
    same = "A" * 32  # 20 bytes of 0 in base 32
    assert [is_change for _, is_change in changes(capture(1, sha1), capture(2, same))] == [
        False
    ] * 2
    found = changes(capture(1, A), capture(2, md5), capture(3, A), capture(4, "1" * 32))
    assert [at for at, is_change in found if is_change] == [4]


HISTORIES = st.dictionaries(
    st.integers(1, 4_000_000_000), st.sampled_from([A, B, "C" * 32]), max_size=20
)


@given(HISTORIES, st.randoms(use_true_random=False))
def test_order_within_a_page_does_not_matter(
    history: dict[int, str], chance: random.Random
) -> None:
    in_order = [capture(at, history[at]) for at in sorted(history)]
    assert changes(*chance.sample(in_order, len(in_order))) == changes(*in_order)


CAPTURES = st.builds(
    lambda path, at, status, mime, digest: Capture(
        page_key(f"http://a.org/{path}"), f"http://a.org/{path}", at, status, mime, digest
    ),
    st.text("abc0/~%?=&,é", max_size=9),
    st.integers(1, 2**32 - 1),
    st.sampled_from([None, 200, 203, 206]),
    st.sampled_from(["text/html", "unk", REVISIT]),
    st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", min_size=32, max_size=32),
)


def as_cdxj(fields: dict[str, str]) -> str:
    return f"{fields['urlkey']} {fields['timestamp']} {json.dumps(fields)}"


WRITERS = [
    lambda fields: " ".join([*fields.values(), "-", "-", "1", "2", "x.warc.gz"]),
    as_cdxj,
    json.dumps,
    lambda fields: json.dumps([*fields.values()]) + ",",
]


@given(st.lists(CAPTURES, unique=True, max_size=5), st.sampled_from(WRITERS))
def test_what_is_written_is_read(captures: list[Capture], write: type[str]) -> None:
    from datetime import UTC, datetime

    lines = [
        write({
            "urlkey": one.page_key,
            "timestamp": datetime.fromtimestamp(one.at, UTC).strftime("%Y%m%d%H%M%S"),
            "url": one.url,
            "mime": one.mime,
            "status": "-" if one.status is None else str(one.status),
            "digest": one.digest,
        })
        for one in captures
    ]  # fmt: skip
    assert read(*lines) == captures


@given(st.lists(st.binary() | st.text('{}[]", :org)/209textml-\ufeff').map(str.encode), max_size=5))
def test_any_bytes_are_read_or_refused(lines: list[bytes]) -> None:
    with contextlib.suppress(ArchiveError):
        list(read_cdx(lines, "x", Counter()))


@pytest.mark.parametrize(
    ("more", "place"),
    [
        (("a/a b.warc.gz", "10", "5"), "http://data/a/a%20b.warc.gz#bytes=10-14"),
        (("a.warc.gz", "10"), ""),
        (("a.warc.gz", "-1", "5"), ""),
        (("a.warc.gz", "10", "0"), ""),
        ((None, "10", "5"), ""),
    ],
)
def test_a_row_names_a_part_of_a_warc_file(more: tuple[str | None, ...], place: str) -> None:
    named = zip(("filename", "offset", "length"), more, strict=False)
    row = {"timestamp": "20250804103329", "url": URL, "mime": "text/html", "status": "200"}
    line = json.dumps(row | {"digest": A} | {k: v for k, v in named if v}).encode()
    (capture,) = read_cdx([line], "x", Counter(), warc_url="http://data/")
    assert capture.place == place
    (plain,) = read_cdx([line], "x", Counter())
    assert (plain.place, plain) == ("", capture)
