"""When pages are rendered at all, and what a fault of the code that decides it costs."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import HtmlResponse, Response
from scrapy.utils.test import get_crawler

from crawl_support import run
from hacs_crawler.crawl.meta import tag_of
from hacs_crawler.crawl.parts import Parts
from hacs_crawler.links import LinkRules
from hacs_crawler.parts.rendering.rendering import Rendering
from hacs_crawler.parts.rendering.verdicts import RenderedLinks

URL = "http://a.example/"
SHELL = HtmlResponse(URL, body=b"<div id=root></div><script>draw()</script>")


class Stats(Counter[str]):
    def count(self, name: str, number: int = 1) -> None:
        self[name] += number


def rendering(mode: str) -> Rendering:
    crawl: Any = SimpleNamespace(
        config=SimpleNamespace(render=mode), crawler=get_crawler(), stats=Stats()
    )
    return Rendering.from_crawl(crawl)


def broken(*_: object) -> None:
    raise ValueError("a fault")


@pytest.mark.parametrize("hook", ["before_request", "answered"])
def test_a_page_over_which_the_code_fails_is_given_to_the_callback_and_not_observed(
    hook: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = rendering("auto")
    failures: list[str] = []
    parts = Parts([part], Stats(), failures.append)
    monkeypatch.setattr(part, "ready" if hook == "before_request" else "records", broken)
    request = Request(URL)

    async def visit() -> Response:
        if hook == "before_request":
            await parts.before_request(request, URL)
        return await parts.answered(request, SHELL, URL)

    assert run(visit()) is SHELL
    assert tag_of(request).unseen == "part_failed"
    assert failures == []


def test_links_of_a_rendered_page_are_kept_apart_from_those_of_its_plain_answer() -> None:
    rules, part = LinkRules(), RenderedLinks()
    assert part.rules(SHELL, rules) is rules
    shown = part.rules(SHELL.replace(flags=["playwright"]), rules)
    assert shown.fingerprint != rules.fingerprint
