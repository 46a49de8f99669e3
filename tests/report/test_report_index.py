"""The index of all pages, and what a report says without scripts."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any
from zlib import decompress

import pytest

from hacs_crawler.links.keys import page_id_of
from hacs_crawler.report.unscripted import unscripted
from hacs_crawler.state.page import News, Visit
from hacs_crawler.utils.times import DAY
from report_support import NOW, busy_state, config_of, data_of, empty_state, report_data


def inflated(index: dict[str, Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = json.loads(decompress(b64decode(index["deflated"])))
    return found


def test_the_index_has_every_page_by_its_url_with_the_facts_that_the_lists_have() -> None:
    config = config_of()
    data = data_of(busy_state(config, sites=6), config)
    index, pages = inflated(data["index"]), data["pages"]
    assert len(index["url"]) == data["counts"]["known"] == 24
    assert index["url"] == sorted(index["url"])
    assert {len(column) for column in index.values()} == {24}
    place = {page_id: number for number, page_id in enumerate(index["id"])}
    shown = [place[page_id] for page_id in pages["id"]]
    for name in ("url", "visits", "failures", "last", "lastUpdate", "notBefore"):
        assert [index[name][number] for number in shown] == pages[name]
    for name in ("p", "rate"):
        assert [index[name][number] for number in shown] == pytest.approx(pages[name], rel=5e-3)


def test_a_page_never_seen_is_in_the_index() -> None:
    state = empty_state()
    state.record([Visit("http://a.example/\u202e", NOW - DAY, News.FAILED)])
    index = inflated(data_of(state, config_of())["index"])
    assert index["id"] == [str(page_id_of("http://a.example/\u202e"))]
    assert "\u202e" not in index["url"][0]
    assert index["visits"] == index["last"] == index["lastUpdate"] == [0]


def test_a_state_with_more_pages_than_asked_for_has_no_index() -> None:
    config = config_of()
    state = busy_state(config, sites=6)
    assert report_data(state, config, NOW, 9, 23)["index"] == {"most": 23, "deflated": None}
    assert len(inflated(report_data(state, config, NOW, 9, 24)["index"])["id"]) == 24


def test_without_scripts_hostile_urls_are_text() -> None:
    state = empty_state()
    url = "http://h.example/</noscript><script>alert(1)</script>"
    for days in (9, 5):
        state.record([Visit(url, NOW - days * DAY, links=frozenset({1}))])
    page = unscripted(data_of(state, config_of()))
    assert "&lt;/noscript&gt;&lt;script&gt;" in page
    assert "<script" not in page
    assert "</noscript" not in page


def test_without_scripts_an_empty_state_is_told_in_words() -> None:
    page = unscripted(data_of(empty_state(), config_of()))
    assert "0 pages known" in page
    assert page.count("None yet.") == 2
