"""Which requests are conditional, which 304s are checked, and what is kept of their hosts."""

from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import HtmlResponse, Response

from crawl_support import open_crawl, settled
from hacs_crawler.crawl import for_parts
from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.observation import observe
from hacs_crawler.crawl.part import Observed
from hacs_crawler.parts import conditional
from hacs_crawler.parts.conditional import CONTRADICTED, confirmed, keep_judgement
from hacs_crawler.state import Estimation, MemoryStore, State, change_annotations, source_id
from state_support import Late

NOW = 1_700_000_000
RIGHT, WRONG, THIRD, KNOWN = (
    f"http://{host}.example/" for host in ("right", "wrong", "third", "known")
)


async def headers_of(crawl: Crawl, url: str) -> dict[bytes, list[bytes]]:
    request = Request(url)
    crawl.state.read_ahead.claim(url)
    await crawl.parts.of(conditional.ConditionalRequests).before_request(request, url)
    return dict(request.headers)


async def see_304(crawl: Crawl, url: str, reason: str = "") -> None:
    response, part = Response(url, 304), crawl.parts.of(conditional.ConditionalRequests)
    crawl.state.read_ahead.claim(url)
    await crawl.state.read_ahead.ready(url)
    recorded = crawl.state.write_behind.record(
        observe(response, url, NOW, crawl.rules(response)).visit
    )
    assert part.observed(Observed(Request(url), response, recorded, reason)) == ()
    for _ in range(99):
        await settled()
        await crawl.state.once(lambda _: None)
        if not part.busy():
            return
    raise AssertionError("the control visit does not end")


async def test_one_304_of_a_host_and_run_is_checked_and_wrong_ones_get_no_more_conditions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(for_parts, "PAUSE_SECONDS", 0.0)
    asked = []

    async def download(request: Request) -> Response:
        asked.append(request.url)
        links = "<a href='/new'>New</a>" if request.url == WRONG else ""
        return HtmlResponse(request.url, body=f"<p><a href='/old'>Old</a>{links}".encode())

    settings = {"HACS_CONDITIONAL_REQUESTS": "auto", "HACS_BUDGET": 100, "HACS_CONTROLS": 0.02}
    async with open_crawl(tmp_path, **settings) as crawl:
        engine: Any = crawl.crawler.engine
        engine.download_async, crawl.clock = download, lambda: NOW + 1
        for url in (RIGHT, WRONG, THIRD, f"{WRONG}2"):
            first = HtmlResponse(url, body=b"<a href='/old'>Old</a>", headers={"ETag": '"5f"'})
            visit = observe(first, url, NOW - 9, crawl.config.rules).visit
            await crawl.state.once(State.record, [visit])
        assert await headers_of(crawl, RIGHT) == {b"If-None-Match": [b'"5f"']}
        await headers_of(crawl, WRONG)
        await see_304(crawl, RIGHT, "doubtful")
        assert (asked, crawl.quota.controls) == ([], 2)
        for _ in range(3):
            await crawl.state.once(keep_judgement, source_id("known.example"), was_right=True)
        await headers_of(crawl, KNOWN)
        for url in (KNOWN, RIGHT, RIGHT, WRONG, THIRD):
            await see_304(crawl, url)
        assert (asked, crawl.quota.controls, crawl.quota.budget) == ([RIGHT, WRONG], 0, 100)
        assert await headers_of(crawl, f"{WRONG}2") == {}
        assert await headers_of(crawl, "http://new.example/") == {}
        counts = [crawl.stats.get(f"controls/{name}") for name in ("confirmed", "contradicted")]
        assert counts == [1, 1]
    async with open_crawl(tmp_path, HACS_CONDITIONAL_REQUESTS=True) as crawl:
        assert await headers_of(crawl, f"{WRONG}2") == {b"If-None-Match": [b'"5f"']}
    assert f"wrong.example answered 304 for {WRONG}, which had new links" in caplog.text


def test_a_contradiction_stays_whatever_another_crawl_finds_at_the_same_time() -> None:
    state = State(MemoryStore(), Estimation())
    keep_judgement(state, 1, was_right=True)
    late = State(
        Late(state.store, lambda: keep_judgement(state, 1, was_right=False)), state.estimation
    )
    assert keep_judgement(late, 1, was_right=True) == CONTRADICTED
    assert confirmed(state, 1) == CONTRADICTED


def test_what_two_crawls_confirm_at_once_counts_twice() -> None:
    state = State(MemoryStore(), Estimation())
    late = State(
        Late(state.store, lambda: keep_judgement(state, 1, was_right=True)), state.estimation
    )
    assert keep_judgement(late, 1, was_right=True) == 2
    assert [keep_judgement(state, 1, was_right=True) for _ in range(2)] == [3, 3]
    change_annotations(state.store, "conditional", [1], lambda *_: b"\x02\x03")
    assert confirmed(state, 1) == 0
