"""What a real archive, pywb, answers: the facts that the reading of archives relies on."""

import email.utils
import gzip
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode

import pytest
from lxml.html import fromstring

from hacs_crawler.archive import Capture, read_cdx, read_warc
from hacs_crawler.archive.capture import REVISIT
from hacs_crawler.links.extract import link_fingerprints
from hacs_crawler.utils.times import DAY
from pywb_archive import Archived, PywbArchive, PywbServer, page_of, pywb_archive, write_warc

pytest.importorskip("warcio")

T = 1_500_000_000
HOME = "http://foo.edu/~bar/"
PACKED = "http://foo.edu/~bar/packed"
OLD, NEW = ("http://a.org/1",), ("http://a.org/1", "http://a.org/2")
RESPONSES = [
    Archived(HOME, T, OLD),
    Archived(HOME, T + DAY, OLD),
    Archived(HOME, T + 2 * DAY, NEW),
    Archived(HOME, T + 3 * DAY, OLD),
    Archived(HOME, T + 4 * DAY, NEW, revisit=False),
    Archived("http://foo.edu/~bar", T + 5 * DAY, status=301,
             headers=(("Location", "http://foo.edu/~bar/baz/"),)),
    Archived(HOME, T + 6 * DAY, body=b"gone", status=404),
    Archived(HOME, T + 7 * DAY, body=b"gone", status=404),
    Archived("https://www.foo.edu/~bar/", T + 8 * DAY, body=b"<p>secure"),
    Archived("http://foo.edu/~bar/baz/", T, body=b"<p>below"),
    Archived("http://foo.edu/~bar/baz/?q=a b&r=%20", T, body=b"<p>query"),
    Archived("http://foo.edu/~bar/a.png", T, body=b"png", mime="image/png"),
    Archived(PACKED, T, body=gzip.compress(page_of(NEW)),
             headers=(("Content-Encoding", "gzip"),)),
    Archived("http://foo.edu/~barbara/", T, body=b"<p>another"),
    Archived("http://other.edu/", T, OLD, headers=(("ETag", '"1"'), ("Set-Cookie", "a=b"))),
]  # fmt: skip

Rows = Callable[..., list[tuple[str, int]]]


@pytest.fixture(scope="module")
def archive(pywb: PywbServer, tmp_path_factory: pytest.TempPathFactory) -> PywbArchive:
    folder = tmp_path_factory.mktemp("archive")
    (folder / "warcs").mkdir()
    warcs = [
        write_warc(folder / "x.warc.gz", RESPONSES[:-1]),
        write_warc(folder / "warcs" / "y.warc.gz", RESPONSES[-1:]),
    ]
    return pywb_archive(pywb, *warcs)


@pytest.fixture
def rows(archive: PywbArchive) -> Rows:
    """Asks for index rows; returns page (its key) and day of each capture."""

    def ask(url: str, **options: object) -> list[tuple[str, int]]:
        captures, _ = index(archive, url, **options)
        return [(capture.page_key, (capture.at - T) // DAY) for capture in captures]

    return ask


def index(archive: PywbArchive, url: str, **options: object) -> tuple[list[Capture], Counter[str]]:
    query = urlencode({"url": url, "output": "json", **options})
    status, headers, body = archive.get(f"/cdx?{query}")
    assert (status, headers["content-type"]) == (200, "text/x-ndjson")
    dropped: Counter[str] = Counter()
    return list(read_cdx(body.splitlines(), "pywb", dropped)), dropped


def memento(archive: PywbArchive, at: int, url: str) -> tuple[int, dict[str, str], bytes]:
    headers = {"Accept-Encoding": "gzip"}
    return archive.get(f"/{timestamp(at)}id_/{url}", **headers)


def timestamp(at: int) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y%m%d%H%M%S}"


def memento_time(headers: dict[str, str]) -> float:
    return email.utils.parsedate_to_datetime(headers["memento-datetime"]).timestamp()


def test_rows_are_captures(archive: PywbArchive) -> None:
    captures, dropped = index(archive, "http://other.edu/")
    (capture,) = captures
    assert (capture.url, capture.at, capture.status) == ("http://other.edu/", T, 200)
    assert capture.digest
    assert not dropped


def test_payloads_that_the_url_had_before_are_revisit_rows(archive: PywbArchive) -> None:
    captures, _ = index(archive, HOME)
    first, again, _, reverted, *_ = captures
    assert again == Capture(first.page_key, HOME, T + DAY, None, REVISIT, first.digest)
    assert reverted == Capture(first.page_key, HOME, T + 3 * DAY, None, REVISIT, first.digest)


def test_payloads_can_be_stored_again(archive: PywbArchive) -> None:
    captures, _ = index(archive, HOME)
    assert captures[2].digest == captures[4].digest
    assert not captures[4].is_revisit


def test_revisits_of_errors_have_no_status(archive: PywbArchive) -> None:
    captures, _ = index(archive, HOME, **{"from": timestamp(T + 7 * DAY)})
    assert (captures[0].at, captures[0].status, captures[0].mime) == (T + 7 * DAY, None, REVISIT)


def test_revisits_of_errors_are_told_by_what_they_repeat(archive: PywbArchive) -> None:
    captures, dropped = index(archive, HOME, **{"from": timestamp(T + 6 * DAY)})
    assert dropped == {"bad_status": 2}
    assert [capture.at for capture in captures] == [T + 8 * DAY]


def test_an_exact_query_finds_every_url_of_the_page(archive: PywbArchive) -> None:
    captures, _ = index(archive, "http://www.foo.edu/~bar")
    assert captures[0].url == HOME
    assert captures[-1].url == "https://www.foo.edu/~bar/"


def test_a_page_that_is_not_there_has_no_rows(archive: PywbArchive) -> None:
    assert index(archive, "http://foo.edu/none") == ([], {})


def test_a_prefix_with_a_slash_leaves_the_homepage_out(rows: Rows) -> None:
    below = ["edu,foo)/~bar/baz", "edu,foo)/~bar/baz?q=a+b&r=+", "edu,foo)/~bar/packed"]
    assert rows(HOME, matchType="prefix") == [(surt, 0) for surt in below]


def test_a_prefix_without_a_slash_has_the_neighbours_too(rows: Rows) -> None:
    found = rows(HOME.rstrip("/"), matchType="prefix")
    assert {surt for surt, _ in found} == {
        "edu,foo)/~bar",
        "edu,foo)/~bar/baz",
        "edu,foo)/~bar/baz?q=a+b&r=+",
        "edu,foo)/~bar/packed",
        "edu,foo)/~barbara",
    }


def test_the_prefix_of_a_host_has_its_homepage(rows: Rows) -> None:
    assert rows("http://other.edu/", matchType="prefix") == [("edu,other)/", 0)]


def test_rows_are_sorted_by_page_then_time(rows: Rows) -> None:
    found = rows("http://foo.edu/", matchType="prefix")
    assert found == sorted(found)
    assert len(found) == 10


def test_from_and_to_are_inclusive(rows: Rows) -> None:
    span = {"from": timestamp(T + DAY), "to": timestamp(T + 3 * DAY)}
    assert [day for _, day in rows(HOME, **span)] == [1, 2, 3]


def test_limit_takes_the_first_rows(rows: Rows) -> None:
    assert [day for _, day in rows(HOME, limit=2)] == [0, 1]


def test_limit_0_is_none(rows: Rows) -> None:
    assert rows(HOME, limit=0) == rows(HOME)


@pytest.mark.parametrize(
    "paging",
    [
        {"showResumeKey": "true"},
        {"resumeKey": "edu,foo)/~bar 20170715024000", "showResumeKey": "true"},
        {"page": 1, "pageSize": 1},
        {"offset": 1},
    ],
)
def test_paging_is_ignored(rows: Rows, paging: dict[str, object]) -> None:
    assert rows(HOME, limit=2, **paging) == rows(HOME, limit=2)


def test_names_of_the_wayback_machine_in_fl_find_nothing(archive: PywbArchive) -> None:
    query = urlencode(
        {"url": HOME, "output": "json", "limit": 1, "fl": "urlkey,original,statuscode"}
    )
    assert archive.get(f"/cdx?{query}")[2] == b'{"urlkey": "edu,foo)/~bar"}\n'


def test_a_filter_by_status_loses_revisits(archive: PywbArchive) -> None:
    captures, _ = index(archive, HOME, filter="statuscode:200")
    assert not any(capture.is_revisit for capture in captures)


@pytest.mark.parametrize("response", [one for one in RESPONSES if one.status != 301])
def test_mementos_are_the_payloads_at_their_times(archive: PywbArchive, response: Archived) -> None:
    url = response.url.replace(" ", "%20")
    status, headers, body = memento(archive, response.at, url)
    assert (status, body) == (response.status, response.payload)
    assert memento_time(headers) == response.at
    assert headers["content-type"] == response.mime


def test_mementos_keep_their_encoding_if_the_client_accepts_it(archive: PywbArchive) -> None:
    assert memento(archive, T, PACKED)[1]["content-encoding"] == "gzip"
    _, headers, body = archive.get(f"/{timestamp(T)}id_/{PACKED}")
    assert "content-encoding" not in headers
    assert body == page_of(NEW)


def test_archived_headers_are_renamed_but_for_cookies(archive: PywbArchive) -> None:
    _, headers, _ = memento(archive, T, "http://other.edu/")
    assert headers["x-archive-orig-etag"] == '"1"'
    assert headers["set-cookie"] == "a=b"
    assert "etag" not in headers


def test_archived_redirects_lead_out_of_the_archive(archive: PywbArchive) -> None:
    status, headers, _ = memento(archive, T + 5 * DAY, "http://foo.edu/~bar")
    assert (status, memento_time(headers)) == (301, T + 5 * DAY)
    assert headers["location"] == "http://foo.edu/~bar/baz/"


def test_another_time_gives_the_closest_memento_and_says_so(archive: PywbArchive) -> None:
    status, headers, body = memento(archive, T + 2 * DAY + 99, HOME)
    assert (status, body) == (200, page_of(NEW))
    assert memento_time(headers) == T + 2 * DAY


def test_a_url_without_its_slash_is_redirected(archive: PywbArchive) -> None:
    status, headers, _ = memento(archive, T, "http://foo.edu/~bar")
    assert status == 307
    assert headers["location"].endswith(f"id_/{HOME}")
    assert "memento-datetime" not in headers


def test_what_is_not_archived_has_no_memento_time(archive: PywbArchive) -> None:
    status, headers, _ = memento(archive, T, "http://foo.edu/none")
    assert status == 404
    assert "memento-datetime" not in headers


def test_warcs_read_as_the_visits_they_were_written_from(tmp_path: Path) -> None:
    path = write_warc(tmp_path / "x.warc.gz", reversed(RESPONSES[:4]))
    links = [link_fingerprints(fromstring(page_of(shown)), HOME) for shown in (OLD, NEW)]
    found = [(visit.at, visit.marks) for visit in read_warc(str(path))]
    assert found == [(T, links[0]), (T + DAY, None), (T + 2 * DAY, links[1]), (T + 3 * DAY, None)]
