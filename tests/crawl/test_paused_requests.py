"""Requests whose host wants to be left alone."""

from __future__ import annotations

from scrapy import Request

from hacs_crawler.crawl.backoff import HostPauses
from hacs_crawler.crawl.paused_requests import PausedRequests


def paused(*urls: str) -> tuple[PausedRequests, HostPauses, list[float], list[Request]]:
    """Requests of hosts that are left alone for 10 seconds, and the clock as a list of one time."""
    now = [0.0]
    pauses = HostPauses(lambda: now[0])
    requests = PausedRequests(pauses)
    made = [*map(Request, urls)]
    for request in made:
        slot = request.url.split("/")[2]
        pauses.pause(slot, 10.0)
        requests.add(request, slot)
    return requests, pauses, now, made


def test_none_comes_before_its_host_may_be_asked_then_in_order() -> None:
    requests, _, now, (first, second) = paused("http://a.example/1", "http://a.example/2")
    assert not requests.may_ask("a.example")
    assert requests.take(lambda _: True) is None
    now[0] = 10.0
    assert requests.may_ask("a.example")
    assert requests.take(lambda _: True) == (first, "a.example")
    assert requests.take(lambda _: True) == (second, "a.example")
    assert requests.take(lambda _: True) is None


def test_none_comes_while_its_slot_is_not_free() -> None:
    requests, _, now, (_, second) = paused("http://a.example/", "http://b.example/")
    now[0] = 10.0
    assert requests.take(lambda slot: slot != "a.example") == (second, "b.example")
    assert requests.take(lambda slot: slot != "a.example") is None


def test_hosts_wait_each_for_its_own_time() -> None:
    requests, pauses, now, (_, second) = paused("http://a.example/", "http://b.example/")
    pauses.pause("a.example", 20.0)
    now[0] = 10.0
    assert requests.take(lambda _: True) == (second, "b.example")
    assert requests.take(lambda _: True) is None


def test_what_is_taken_as_a_whole_is_forgotten() -> None:
    requests, _, _, made = paused("http://a.example/", "http://b.example/")
    assert len(requests) == 2
    assert requests.all() == requests.take_all() == made
    assert len(requests) == 0
    assert requests.all() == []
