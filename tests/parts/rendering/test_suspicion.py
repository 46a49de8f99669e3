"""Which plain answers look as if a browser showed more."""

import pytest
from lxml import html

from hacs_crawler.parts.rendering.rendering import ROOTS, suspicion_of

LINKS = "".join(f'<a href="/{n}">page {n}</a>' for n in range(20))
TEXT = "<p>" + "A page says something. " * 50 + "</p>"
SCRIPT = '<script src="/app.js"></script>'


EMPTY_ROOT = "an application's root without links"
NOTICE = "<noscript>You need to enable JavaScript to run this app.</noscript>"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        *((f'{LINKS}<div id="{name}"></div>{SCRIPT}', EMPTY_ROOT) for name in ROOTS),
        (f"{LINKS}<app-root></app-root>{SCRIPT}", EMPTY_ROOT),
        (f"{LINKS}<div ng-app></div>{SCRIPT}", EMPTY_ROOT),
        (f'<div id="__next">{LINKS}{TEXT}</div>{SCRIPT}', ""),
        (f"{LINKS}{TEXT}{NOTICE}{SCRIPT}", "a notice to those without JavaScript"),
        (f'{LINKS}{TEXT}<noscript><img src="/count.gif"></noscript>{SCRIPT}', ""),
        (f'<a href="/a">a</a>{SCRIPT}', "few links and much script"),
        (f"<p>text</p><script>{'x = 1;' * 100}</script>", "few links and much script"),
        (f"{LINKS}{SCRIPT}", ""),
        (f"{TEXT * 10}{SCRIPT}", ""),
        ('<div id="root"></div>', ""),
        ("", ""),
    ],
)
def test_a_page_is_suspicious_that_leaves_its_links_to_a_script(body: str, why: str) -> None:
    page = html.document_fromstring(f"<html><body>{body}</body></html>")
    assert suspicion_of(page) == why


def test_what_is_no_tree_is_not_suspicious() -> None:
    assert suspicion_of(None) == ""
