"""A report that is served: to this machine alone, read only, and renewed while it is looked at."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

import pytest

from browser import Tab, needs_chromium
from hacs_crawler.exceptions import HacsError, StateError
from hacs_crawler.report.live import serving
from report_support import busy_state, config_of, data_of

SECONDS = 0.2


class Source:
    """Data of a report, which a test changes, and an error that reading them ends with."""

    def __init__(self) -> None:
        config = config_of()
        self.data = data_of(busy_state(config, sites=8), config)
        self.error: HacsError | None = None

    def __call__(self) -> dict[str, Any]:
        if self.error is not None:
            raise self.error
        return self.data

    def learn(self, known: int) -> None:
        self.data = {**self.data, "counts": {**self.data["counts"], "known": known}}


@pytest.fixture(scope="module")
def made() -> Source:
    return Source()


@pytest.fixture
def source(made: Source) -> Iterator[Source]:
    before = made.data
    yield made
    made.data, made.error = before, None


@pytest.fixture
def address(source: Source) -> Iterator[str]:
    """Where it is served; a test that names this before `opened` stops it after its tabs."""
    with serving(source, 0, SECONDS) as served:
        yield served


def ask(
    address: str, path: str = "/", method: str = "GET", **headers: str
) -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection(urlsplit(address).netloc, timeout=30)
    connection.request(
        method, path, headers={name.replace("_", "-"): text for name, text in headers.items()}
    )
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_the_page_and_its_data_are_served_and_nothing_else(source: Source) -> None:
    with serving(source, 0, 0.0) as address:
        page, body = ask(address)
        assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert b"connect-src 'self'" in body
        data, body = ask(address, "/data.json")
        assert data.status == 200
        assert json.loads(body)["counts"] == source.data["counts"]
        for path in ("/state.db", "/../etc/passwd", "/data.json/"):
            assert ask(address, path)[0].status == 404


def test_data_that_a_reader_has_are_not_sent_again(source: Source) -> None:
    with serving(source, 0, 0.0) as address:
        tag = ask(address, "/data.json")[0].headers["ETag"]
        answer, body = ask(address, "/data.json", If_None_Match=tag)
        assert (answer.status, body) == (304, b"")
        source.learn(99)
        answer, body = ask(address, "/data.json", If_None_Match=tag)
        assert json.loads(body)["counts"]["known"] == 99


def test_data_are_made_anew_only_after_a_time(source: Source) -> None:
    with serving(source, 0, 3600.0) as address:
        ask(address)
        source.learn(99)
        assert json.loads(ask(address, "/data.json")[1])["counts"]["known"] == 32


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_is_taken_from_a_reader(source: Source, method: str) -> None:
    with serving(source, 0, 0.0) as address:
        assert ask(address, "/", method)[0].status == 501


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "10.0.0.1", ""])
def test_a_page_of_another_host_cannot_read_it(source: Source, host: str) -> None:
    with serving(source, 0, 0.0) as address:
        answer, body = ask(address, "/data.json", Host=host)
        assert answer.status == 403
        assert b"http" not in body


def test_it_is_served_to_this_machine_alone(source: Source) -> None:
    with serving(source, 0, 0.0) as address:
        assert urlsplit(address).hostname == "127.0.0.1"


def test_a_state_that_is_away_is_told_to_the_reader_until_it_is_back(source: Source) -> None:
    with serving(source, 0, 0.0) as address:
        source.error = StateError("the state is away")
        answer, body = ask(address, "/data.json")
        assert (answer.status, body) == (503, b"the state is away\n")
        source.error = None
        assert ask(address, "/data.json")[0].status == 200


def test_a_port_that_is_taken_is_an_error_that_names_it(source: Source) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(HacsError, match=f"port {port}: Address already in use"):
            serving(source, port, 0.0).__enter__()


def until(tab: Tab, condition: str) -> None:
    """Wait for what a change of the page brings."""
    tab.run(
        f"new Promise(done => {{ const look = () => ({condition}) && done(1);"
        "new MutationObserver(look).observe(document.body,"
        "{childList: true, subtree: true, attributes: true}); look(); })"
    )


@needs_chromium
def test_a_reader_sees_what_is_new_where_the_reader_is(
    source: Source, address: str, opened: Callable[..., Tab]
) -> None:
    tab = opened(address)
    tab.run("document.querySelector('[data-table=find] input').focus()")
    tab.write("s03.")
    tab.run("scrollTo({top: 1500, behavior: 'instant'})")
    source.learn(4711)
    until(tab, "document.querySelector('#numbers dd').innerText === '4,711'")
    tab.settle()
    assert tab.run("scrollY") == 1500
    assert tab.run("document.activeElement.getAttribute('aria-label')") == "Filter All pages"
    assert tab.run("document.activeElement.value") == "s03."
    assert tab.run("document.querySelectorAll('[data-table=find] tbody tr').length") == 4
    assert tab.run("document.querySelector('#live').hidden")


@needs_chromium
def test_a_section_that_had_nothing_to_show_is_drawn_once_it_has(
    source: Source, address: str, opened: Callable[..., Tab]
) -> None:
    full = source.data
    none = {name: [] for name in full["runs"]} | {"total": 0}
    source.data = {**full, "runs": none}
    tab = opened(address)
    assert "No ranked visit" in tab.run("document.querySelector('#runs').innerText")
    source.data = full
    until(tab, "document.querySelector('#runs svg[role=img]')")
    assert "No ranked visit" not in tab.run("document.querySelector('#runs').innerText")


@needs_chromium
def test_a_report_that_is_no_longer_live_says_so(address: str, opened: Callable[..., Tab]) -> None:
    tab = opened(address)
    tab.run("window.fetch = () => Promise.reject(new Error('away'))")
    until(tab, "!document.querySelector('#live').hidden")
    assert "no longer live" in tab.run("document.querySelector('#live').innerText")
