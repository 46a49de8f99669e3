"""What a report says without scripts."""

from __future__ import annotations

from hacs_crawler.report.unscripted import unscripted
from hacs_crawler.state.page import Visit
from hacs_crawler.utils.times import DAY
from report_support import NOW, config_of, data_of, empty_state


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
