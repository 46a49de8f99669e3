"""Which plain answers look as if a browser showed more."""

from __future__ import annotations

import pytest
from lxml import html

from hacs_crawler.parts.rendering.rendering import ROOTS, suspicion_of

LINKS = "".join(f'<a href="/{n}">page {n}</a>' for n in range(20))
TEXT = "<p>" + "A page says something. " * 50 + "</p>"
SCRIPT = '<script src="/app.js"></script>'


def suspicion(body: str) -> str:
    return suspicion_of(html.document_fromstring(f"<html><body>{body}</body></html>"))


@pytest.mark.parametrize("name", ROOTS)
def test_the_empty_root_of_an_application_is_suspicious(name: str) -> None:
    assert suspicion(f'{LINKS}<div id="{name}"></div>{SCRIPT}') == (
        "an application's root without links"
    )


@pytest.mark.parametrize("element", ["<app-root></app-root>", "<div ng-app></div>"])
def test_so_is_that_of_angular(element: str) -> None:
    assert suspicion(f"{LINKS}{element}{SCRIPT}")


def test_the_root_of_an_application_that_a_server_filled_is_not() -> None:
    assert suspicion(f'<div id="__next">{LINKS}{TEXT}</div>{SCRIPT}') == ""


def test_a_notice_to_those_without_javascript_is_suspicious() -> None:
    notice = "<noscript>You need to enable JavaScript to run this app.</noscript>"
    assert suspicion(f"{LINKS}{TEXT}{notice}{SCRIPT}") == "a notice to those without JavaScript"
    pixel = '<noscript><img src="/count.gif"></noscript>'
    assert suspicion(f"{LINKS}{TEXT}{pixel}{SCRIPT}") == ""


def test_few_links_and_much_script_are_suspicious() -> None:
    assert suspicion(f'<a href="/a">a</a>{SCRIPT}') == "few links and much script"
    assert suspicion(f"<p>text</p><script>{'x = 1;' * 100}</script>")


def test_many_links_are_not_nor_is_much_text() -> None:
    assert suspicion(f"{LINKS}{SCRIPT}") == ""
    assert suspicion(f"{TEXT * 10}{SCRIPT}") == ""


def test_a_page_without_scripts_is_never_suspected() -> None:
    assert suspicion('<div id="root"></div>') == ""
    assert suspicion("") == ""
    assert suspicion_of(None) == ""
