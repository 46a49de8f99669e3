"""What is subtle in the Wayback Machine that tests play against."""

import http.client
import json
import urllib.request
from collections.abc import Iterator
from urllib.error import HTTPError
from urllib.parse import urlencode

import pytest

from wayback_machine import WaybackMachine, page

URL = "http://a.org/"
TIMES = ["20010101000000", "20010101000009", "20020101000000", "20030101000000", "20040601000000"]


@pytest.fixture
def archive() -> Iterator[WaybackMachine]:
    with WaybackMachine() as archive:
        yield archive


def get(url: str, **headers: str) -> http.client.HTTPResponse:
    request = urllib.request.Request(
        url, headers={k.replace("_", "-"): v for k, v in headers.items()}
    )
    opener = urllib.request.build_opener(_NoRedirects)
    try:
        return opener.open(request, timeout=10)  # type: ignore[no-any-return]
    except HTTPError as error:
        return error  # type: ignore[return-value]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def ask(archive: WaybackMachine, query: str = "", /, **params: object) -> bytes:
    params = {"url": URL, "output": "json", **params}
    with get(f"{archive.cdx_url}?{urlencode(params)}{query}") as response:
        return response.read()


def times(answer: bytes) -> list[str]:
    return [row[1] for row in json.loads(answer)[1:] if len(row) > 1]


def fill(archive: WaybackMachine, url: str = URL) -> None:
    for at in TIMES:
        archive.capture(url, at, "/x")


def walk(archive: WaybackMachine, *, encoded: bool, **params: object) -> list[list[str]]:
    """The timestamps of every chunk, with the resume key encoded once more or as it is."""
    chunks: list[list[str]] = []
    query = ""
    while len(chunks) < 9:
        answer = ask(archive, query, limit=2, showResumeKey="true", **params)
        chunks.append(times(answer))
        rows = json.loads(answer)
        if [] not in rows:
            break
        key = rows[-1][0]
        query = "&" + (urlencode({"resumeKey": key}) if encoded else f"resumeKey={key}")
    return chunks


@pytest.mark.parametrize("encoded", [True, False])
def test_resume_keys_lead_through_all_rows(archive: WaybackMachine, encoded: bool) -> None:
    fill(archive)
    assert walk(archive, encoded=encoded) == [TIMES[:2], TIMES[2:4], TIMES[4:]]


@pytest.mark.parametrize("encoded", [True, False])
def test_keys_of_urls_with_escapes_have_to_be_encoded_once_more(
    archive: WaybackMachine, encoded: bool
) -> None:
    url = "http://a.org/one%2520two"
    fill(archive, url)
    chunks = walk(archive, encoded=encoded, url=url)
    assert (chunks == [TIMES[:2], TIMES[2:4], TIMES[4:]]) is encoded


def test_answers_look_as_recorded(archive: WaybackMachine) -> None:
    digest = archive.capture("http://cnn.com:80/", "20010414005939", body=b"")
    assert digest == "3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"
    row = f"com,cnn)/ 20010414005939 http://cnn.com:80/ text/html 200 {digest} 0\n"
    query = {"url": "cnn.com", "limit": 1, "showResumeKey": "true"}
    key = "com%2Ccnn%29%2F+2001041400593%3A"
    assert ask(archive, output="text", **query).decode() == f"{row}\n{key}\n"
    assert ask(archive, **query).decode().splitlines()[1:] == [
        json.dumps(row.split()) + ",",
        "[],",
        f'["{key}"]]',
    ]


@pytest.mark.parametrize(("output", "answer"), [("json", b"[]\n"), ("text", b"")])
def test_an_unknown_url_has_no_rows(archive: WaybackMachine, output: str, answer: bytes) -> None:
    assert ask(archive, output=output, limit=9, showResumeKey="true") == answer


def test_there_is_no_key_without_a_limit_nor_a_right_one_without_urlkey(
    archive: WaybackMachine,
) -> None:
    fill(archive)
    assert b"[]" not in ask(archive, showResumeKey="true")
    key = json.loads(ask(archive, showResumeKey="true", limit=3, fl="timestamp,original"))[-1][0]
    assert key == "-+20020101000001"
    assert times(ask(archive, resumeKey=key))[0] == TIMES[0]


def test_both_ends_of_a_range_are_inclusive(archive: WaybackMachine) -> None:
    fill(archive)
    assert times(ask(archive, "", **{"from": TIMES[1], "to": "2003"})) == TIMES[1:4]
    assert times(ask(archive, **{"from": TIMES[1] + "000", "to": TIMES[2]})) == [TIMES[2]]


@pytest.mark.parametrize(
    "query", [{"url": "foo.edu/~bar/*"}, {"url": "http://www.foo.edu/~bar/", "matchType": "prefix"}]
)
def test_prefix_takes_siblings_too(archive: WaybackMachine, query: dict[str, str]) -> None:
    for path in ("~bar/", "~bar", "~bar/baz", "~barbara", "~bas", ""):
        archive.capture(f"http://foo.edu/{path}", TIMES[0])
    rows = json.loads(ask(archive, **query))[1:]
    assert [row[0] for row in rows] == [
        "edu,foo)/~bar", "edu,foo)/~bar", "edu,foo)/~bar/baz", "edu,foo)/~barbara"]  # fmt: skip


def test_mementos_are_what_was_archived(archive: WaybackMachine) -> None:
    archive.capture(URL, TIMES[0], "/x", status=429, headers={"Retry-After": "6"})
    with get(f"{archive.memento_url}/{TIMES[0]}id_/{URL}") as response:
        assert response.status == 429
        assert response.read() == page("/x")
        assert response.headers["Memento-Datetime"] == "Mon, 01 Jan 2001 00:00:00 GMT"
        assert response.headers["X-Archive-Orig-Retry-After"] == "6"
        assert "Retry-After" not in response.headers
    assert [asked.memento for asked in archive.asks("memento")] == [f"{TIMES[0]} {URL}"]


def test_what_cannot_be_played_redirects_to_the_nearest_capture(archive: WaybackMachine) -> None:
    fill(archive)
    archive.revisit(URL, "20030102000000", of=TIMES[3])
    archive.unplayable(URL, TIMES[3])
    with get(f"{archive.memento_url}/{TIMES[3]}id_/{URL}") as response:
        assert response.status == 302
        assert response.headers["Location"] == f"{archive.memento_url}/20030102000000id_/{URL}"
        assert "Memento-Datetime" not in response.headers
    archive.nearest = False
    with get(f"{archive.memento_url}/{TIMES[3]}id_/{URL}") as response:
        assert response.status == 404
