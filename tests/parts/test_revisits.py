"""What is kept of how the pages of a crawl were asked for: of those that were seen."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.http import HtmlResponse
from scrapy.settings import Settings

from crawl_support import open_crawl, run
from hacs_crawler.config import Config
from hacs_crawler.crawl.part import Observed
from hacs_crawler.crawl.recipes import (
    RequestRecipe,
    read_recipes,
    with_only_requests,
    write_recipes,
)
from hacs_crawler.links import page_id_of
from hacs_crawler.parts import revisits
from hacs_crawler.parts.revisits import RecipeWriter
from hacs_crawler.state import Estimation, MemoryStore, Page, State, Visit, merged

URL = "http://a.example/x"
PAGE = page_id_of(URL)


class Any_(Spider):  # noqa: N801 - a spider of somebody's
    name = "any"

    def parse_item(self, response: Any) -> None: ...


class World:
    """The part in a crawl of which it sees a state, a spider and its settings."""

    def __init__(self, **settings: Any) -> None:
        self.store = State(MemoryStore(), Estimation())
        self.spider = Any_()
        config = Config.from_settings(Settings({"HACS_PAGES": "all", **settings}))
        crawl: Any = SimpleNamespace(
            config=config, state=self, crawler=SimpleNamespace(spider=self.spider)
        )
        self.part = RecipeWriter.from_crawl(crawl)

    async def once(self, function: Any, *given: Any) -> Any:
        return function(self.store, *given)

    def send(self, url: str = URL, **arguments: Any) -> Request:
        request = Request(url, **{"callback": self.spider.parse_item, **arguments})
        self.part.before_request(request, request.meta.setdefault("hacs_page", url))
        return request

    def answer(self, request: Request, reason: str = "", *, only_requests: bool = False) -> None:
        recorded = merged(Page(URL), Visit(URL, 86_400), is_known=True)
        response = HtmlResponse(request.url, request=request)
        self.part.observed(Observed(request, response, recorded, reason, only_requests))

    def kept(self) -> RequestRecipe | None:
        run(self.part.closing())
        return read_recipes(self.store, "any", [PAGE]).get(PAGE)


@pytest.mark.parametrize("only_requests", [True, False])
def test_a_page_that_was_seen_is_kept_with_whether_it_only_leads_on(only_requests: bool) -> None:
    world = World()
    world.answer(world.send(), only_requests=only_requests)
    assert world.kept() == RequestRecipe(URL, "parse_item", only_requests=only_requests)
    assert with_only_requests(world.store, "any", [PAGE, 8]) == [PAGE] * only_requests


def test_a_redirect_or_retry_is_kept_as_it_was_asked_for_first() -> None:
    world = World()
    first = world.send(headers={"X-Part": "a"})
    again = first.replace(url=f"{URL}/elsewhere", headers={"User-Agent": "of a middleware"})
    world.part.before_request(again, URL)
    world.answer(again)
    assert world.kept() == RequestRecipe(URL, "parse_item", headers={"X-Part": ["a"]})


@pytest.mark.parametrize(
    "end",
    [
        lambda world, _: run(world.part.round_began()),
        lambda world, request: world.part.failed(request, ValueError(), URL),
        lambda world, request: world.answer(request, "gone"),
    ],
)
def test_what_was_not_seen_is_not_kept_and_is_asked_for_anew(
    end: Callable[[World, Request], None],
) -> None:
    world = World()
    end(world, world.send(cb_kwargs={"part": 1}))
    assert world.kept() is None
    world.answer(world.send())
    assert world.kept() == RequestRecipe(URL, "parse_item")


def test_what_cannot_be_asked_for_again_and_what_is_left_out_of_it_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    world = World()
    world.answer(world.send(callback=lambda _: None))
    world.send(f"{URL}/other", meta={"token": "x"})
    assert world.kept() is None
    first, second = caplog.messages
    assert first.startswith("1 page cannot be revisited")
    assert second.endswith("look like secrets: token")


def test_what_follows_from_a_form_is_marked() -> None:
    world = World()
    form = Request(URL, method="POST")
    world.part.before_request(form, None)
    assert {key for key in world.part.inherited if form.meta.get(key)} == {"hacs.after_form"}
    world.answer(world.send(meta={"hacs.after_form": True}))
    assert world.kept() == RequestRecipe(URL, "parse_item", after_form=True)


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"HACS_REVISIT": 3}, (0, 7)),
        ({"HACS_REVISIT": "budget"}, (0, 7)),
        ({"HACS_REVISIT": 3, "HACS_PAGES": "/[1-8]$"}, (7,)),
    ],
)
async def test_as_many_pages_as_asked_for_are_requested_again_whichever_cannot_be(
    settings: dict[str, Any],
    found: tuple[int, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(revisits, "SPARE", 0)
    urls = [f"{URL}/{number}" for number in range(9)]
    recipes = {
        page_id_of(url): RequestRecipe(url, "parse_item" if number in {0, 7, 8} else "gone")
        for number, url in enumerate(urls)
    }
    async with open_crawl(
        tmp_path, Any_, **{"HACS_BUDGET": 3, "HACS_PAGES": "all"} | settings
    ) as crawl:
        state = crawl.state
        await state.once(
            State.record, [Visit(url, 86_400, marks=frozenset({1})) for url in urls[:8]]
        )
        await state.once(write_recipes, "any", recipes, {"parse_item", "gone", ""})
        requests = [one async for one in crawl.parts.of(revisits.Revisits).start_requests()]
        # the last was never visited
        assert {request.url for request in requests} == {urls[number] for number in found}
        assert crawl.stats.get("revisits") == len(found)
    (message,) = caplog.messages
    assert message.startswith("6 known pages are not visited again")
