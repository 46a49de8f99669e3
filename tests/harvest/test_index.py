"""How the size of queries follows what a CDX server can take."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, strategies as st

from hacs_crawler.archive import Capture, Cleaning
from hacs_crawler.harvest.asking import TooMuchError, UnansweredError
from hacs_crawler.harvest.client import LEAST_LIMIT, LIMIT, LIMIT_WITHOUT_KEYS, TRIES, IndexReader
from hacs_crawler.harvest.query import IndexAnswer, Site, Span

URL = "http://foo.edu/"
LAST = 2**20
Asked = tuple[Span, int]


@dataclass
class Server:
    """A CDX server with a row at each of some seconds; `most` rows are given at once."""

    times: list[int]
    has_keys: bool = True
    most: int = 2**40
    refuses: Callable[[Span, int], bool] = lambda span, limit: False
    asked: list[Asked] = field(default_factory=list)
    is_keyless: bool | None = None

    async def captures(self, site: Site, span: Span, limit: int) -> IndexAnswer:
        self.asked.append((span, limit))
        if self.refuses(span, limit):
            raise TooMuchError("too much")
        after = int(span.resume_key or -1)
        times = [at for at in self.times if max(span.since, after + 1) <= at <= span.until]
        found = times[: min(limit, self.most)]
        key = str(found[-1]) if self.has_keys and len(found) == limit else ""
        rows = [Capture("edu,foo)/", URL, at, 200, "text/html", "A") for at in found]
        return IndexAnswer([("edu,foo)/", rows)], len(rows), key, Cleaning())


def read_all(server: Server, *, has_subpages: bool = False) -> list[int]:
    """Read on until nothing is left to do; return the seconds of all captures that came."""

    async def read() -> list[int]:
        reader = IndexReader(server, Site(URL, has_subpages=has_subpages))
        left, found = [Span(0, LAST)], []
        while left:
            answer, left = await reader.read(left)
            found += [one.at for _, rows in answer.pages for one in rows]
            assert len(server.asked) < 2_000
        return found

    return asyncio.run(read())


def limits(server: Server) -> list[int]:
    return [limit for _, limit in server.asked]


def test_an_index_is_read_on_from_key_to_key() -> None:
    server = Server(list(range(2 * LIMIT + 3)))
    assert read_all(server) == server.times
    assert [span.resume_key for span, _ in server.asked] == ["", "4999", "9999"]
    assert server.is_keyless is False


@pytest.mark.parametrize(
    ("number", "has_keys", "known", "asked", "is_keyless"),
    [
        (3, True, None, [LIMIT], None),  # a short answer is the end
        (LIMIT + 5, False, None, [LIMIT, LIMIT_WITHOUT_KEYS], True),
        (1, False, True, [LIMIT_WITHOUT_KEYS], True),
        (LIMIT, False, False, [LIMIT], False),  # one that has given keys is believed
    ],
)
def test_a_server_without_keys_is_asked_for_more_at_once(
    number: int, has_keys: bool, known: bool | None, asked: list[int], is_keyless: bool | None
) -> None:
    server = Server(list(range(number)), has_keys=has_keys, is_keyless=known)
    assert read_all(server) == server.times
    assert (limits(server), server.is_keyless) == (asked, is_keyless)
    assert {span for span, _ in server.asked} == {Span(0, LAST)}


def test_what_a_server_without_keys_cut_off_is_asked_for_in_halves() -> None:
    server = Server(list(range(0, LAST, 8)), has_keys=False)
    assert read_all(server) == server.times


def test_a_site_too_large_is_asked_for_fewer_rows_in_the_same_span() -> None:
    server = Server(list(range(1_000)), refuses=lambda span, limit: limit > 400)
    assert read_all(server, has_subpages=True) == server.times
    assert {(span.since, span.until) for span, _ in server.asked} == {(0, LAST)}
    assert limits(server)[:5] == [LIMIT, LIMIT // 2, LIMIT // 4, LIMIT // 8, LIMIT // 16]


def test_of_a_server_that_could_not_give_so_many_rows_no_more_are_asked_for() -> None:
    fails = iter([True, True, True])
    server = Server(list(range(2 * LIMIT)), refuses=lambda *_: next(fails, False))
    read_all(server, has_subpages=True)
    assert limits(server)[3:6] == [LIMIT // 8] * 3


def test_a_query_is_given_up_when_it_cannot_be_made_smaller() -> None:
    server = Server([], refuses=lambda *_: True)
    with pytest.raises(UnansweredError):
        read_all(server)
    assert len(server.asked) == TRIES + 1
    assert min(limits(server)) >= LEAST_LIMIT


def test_what_cannot_be_helped_by_asking_for_less_is_given_up_at_once() -> None:
    class Odd(Server):
        async def captures(self, *asked: Any) -> IndexAnswer:
            self.asked.append(asked[1:])
            raise UnansweredError("no index")

    server = Odd([])
    with pytest.raises(UnansweredError, match="no index"):
        read_all(server)
    assert len(server.asked) == 1


@pytest.mark.parametrize("keys", [["a", "a"], ["a", "b", "a", "b"]])
def test_a_key_that_comes_again_is_the_end(
    keys: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    left = iter([*keys, *keys])

    class Round(Server):
        async def captures(self, *asked: Any) -> IndexAnswer:
            self.asked.append(asked[1:])
            return IndexAnswer([], 0, next(left), Cleaning())

    server = Round([])
    read_all(server)
    assert len(server.asked) == len(set(keys)) + 1
    assert caplog.text.count("was repeated") == 1


@given(
    st.lists(st.integers(0, LAST), unique=True, max_size=60).map(sorted),
    st.booleans(),
    st.booleans(),
    st.integers(LAST // 8, LAST),
    st.integers(60, LIMIT),
)
def test_whatever_a_server_can_take_every_row_comes_once_and_in_order(
    times: list[int], has_keys: bool, has_subpages: bool, longest: int, most: int
) -> None:
    def refuses(span: Span, limit: int) -> bool:
        return limit > most if has_subpages else span.until - span.since > longest

    server = Server(times, has_keys=has_keys, refuses=refuses)
    assert read_all(server, has_subpages=has_subpages) == times
