"""The items of a page's last visit: kept by their keys, and compared with those of the next one."""

from collections.abc import Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response

from crawl_support import observed, open_crawl
from hacs_crawler.crawl.part import Observed
from hacs_crawler.parts import last_items
from hacs_crawler.parts.last_items import ENOUGH_ITEMS, Kept, LastItems
from hacs_crawler.state import Page, Visit, merged
from hacs_crawler.watch import item_key

URL = "http://a.example/"
KEYED = {"HACS_WATCH": "items", "HACS_WATCH_KEY": "id"}
Item = dict[str, Any]


async def kept_after(
    folder: Path, *visits: Sequence[Item], reason: str = "", **settings: Any
) -> list[Any]:
    """The items that the state has of a page after visits, each in a crawl of its own."""
    for items in (*visits, None):
        async with open_crawl(folder, **(settings or KEYED)) as crawl:
            part = crawl.parts.of(LastItems)
            response = Response(URL)
            assert await part.answered(Request(URL), response, URL) is response
            if items is None:
                return sorted(part.items_before(URL, response).values(), key=str)
            for item in items:
                part.shown(response, item, frozenset(), may_be_news=True)
                item["name"] = "changed by a pipeline"
            assert not list(part.observed(observed(Visit(URL, 86_400), reason, response)))
            assert part.items_before(URL, response) == {}
    raise AssertionError


def of(*ids: int | None, name: str = "") -> list[Item]:
    return [{"name": name} if key is None else {"name": name, "id": key} for key in ids]


@pytest.mark.parametrize(
    ("visits", "kept"),
    [
        ([of(1, 2)], of(1, 2)),
        ([of(1, 2), of(2, name="new")], of(2, name="new")),
        ([of(1, 2), []], of(1, 2)),
        ([of(1, 1, 2)], of(2)),
        ([of(1, None)], of(1, None)),
        ([of(1, None, None)], of(1)),
        ([of(*range(4))], of(0, 1, 2)),
    ],
)
async def test_items_are_kept_as_they_were_shown_by_keys_that_only_one_of_them_has(
    visits: list[list[Item]], kept: list[Item], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_items, "MOST_ITEMS", 3)
    assert await kept_after(tmp_path, *visits) == kept


async def test_without_a_key_the_only_item_of_a_page_is_kept(tmp_path: Path) -> None:
    assert await kept_after(tmp_path, of(1), HACS_WATCH="items") == of(1)
    assert await kept_after(tmp_path, of(1, 2), HACS_WATCH="items") == []


async def test_of_a_page_that_was_not_read_the_items_before_stay(tmp_path: Path) -> None:
    assert await kept_after(tmp_path, of(1)) == of(1)
    assert await kept_after(tmp_path, of(1, 2), reason="doubtful") == of(1)


LAMP = {"name": "Lamp", "price": 9, "stock": 4, "url": URL}


@pytest.mark.parametrize(
    ("item", "is_doubted"),
    [
        ({"name": "Sign in", "price": None, "stock": "", "url": URL}, True),
        ({"name": "Just a moment 7f3a", "url": URL}, True),
        ({**LAMP, "price": None, "stock": None}, False),
        ({"name": "Lamp 2", "price": 10, "stock": 5, "url": URL}, False),
    ],
)
async def test_an_item_with_fewer_values_and_none_of_those_before_is_not_the_pages(
    item: Item, is_doubted: bool, tmp_path: Path
) -> None:
    await kept_after(tmp_path, [{**LAMP}], HACS_WATCH="items")
    async with open_crawl(tmp_path, HACS_WATCH="items") as crawl:
        part = crawl.parts.of(LastItems)
        await part.answered(Request(URL), Response(URL), URL)
        doubted = [part.doubts(Page(URL, failures=n), item, frozenset()) for n in (0, 1)]
    assert doubted == [is_doubted, False]


KEYLESS = {"HACS_WATCH_KEY": ""}
SINGLE, LISTS, BY_NAME = [1] * ENOUGH_ITEMS, [30, 30, 30], {"HACS_WATCH_KEY": "name"}
OUT = "'at' differed in 18 of 20 items: HACS_WATCH_IGNORE = ['at'] leaves it out; then each page's next"


@pytest.mark.parametrize(
    ("of_pages", "equal", "more", "said"),
    [
        (SINGLE, 2, {}, OUT),
        (SINGLE, 3, {}, ""),
        (SINGLE[1:], 0, {}, ""),
        (SINGLE, 0, {"HACS_WATCH_IGNORE": ["at"]}, ""),
        (SINGLE, 0, {"HACS_WATCH_KEY": "nr"}, "'nr': none of 20 items has such a field"),
        (LISTS, 9, {}, "The field 'at' differed in 81 of 90 items"),
        (LISTS, 10, {}, ""),
        (LISTS, 0, BY_NAME, "have the same, such as 'x'. Set it to a field that"),
        ([1, 1, 1], 0, BY_NAME, ""),
        (LISTS, 0, KEYLESS, "1 page showed as many items as before, but none of them"),
    ],
)
async def test_a_field_that_nearly_always_differs_is_pointed_out_and_a_key_that_is_useless(
    of_pages: list[int],
    equal: int,
    more: Item,
    said: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    async with open_crawl(tmp_path, **{**KEYED, **more}) as crawl:
        part = crawl.parts.of(LastItems)
        numbers = count()
        for page, items in enumerate(of_pages):
            url, response, before = f"{URL}{page}", Response(URL), {}
            for number in islice(numbers, items):
                shown = {"at": number >= equal, "id": number, "name": "x"}
                before[item_key(shown, "id") or 0] = {**shown, "at": False}
                part.shown(response, shown, frozenset(), may_be_news=False)
            part._before[url] = Kept(0, before)
            had, has = frozenset(range(-items, 0)), frozenset(range(items))
            known = merged(Page(url), Visit(url, 1, marks=had)).after
            recorded = merged(known, Visit(url, 86_400, marks=has))
            # a field that always differs makes visits doubtful
            part.observed(Observed(Request(url), response, recorded, "doubtful" * (page % 2)))
        assert (": at True, was False" in caplog.text) is (not more), "those watched"
        caplog.clear()
        caplog.set_level("INFO")
        for _ in range(2):
            part.sum_up()
        assert len(caplog.messages) == bool(said)
        assert said in caplog.text


@pytest.mark.parametrize(("emptied", "is_said"), [(9, True), (8, False)])
async def test_a_field_that_became_empty_on_nearly_all_pages_is_pointed_out(
    emptied: int, is_said: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_crawl(tmp_path, **KEYED) as crawl:
        part, response = crawl.parts.of(LastItems), Response(URL)
        for number in range(10):
            shown = {"id": 7, "name": "x" * (number >= emptied)}
            part._before[f"{URL}{number}"] = Kept(0, {item_key(shown, "id") or 0: {"name": "x"}})
            part.shown(response, shown, frozenset(), may_be_news=False)
            part.observed(observed(Visit(f"{URL}{number}", 86_400), "", response))
        part.sum_up()
    assert (f"'name' has become empty in {emptied} of 10 items" in caplog.text) is is_said


@pytest.mark.parametrize(("days", "level"), [((), "WARNING"), ((1,), "INFO"), ((1, 1), "INFO")])
async def test_a_field_that_no_item_has_is_a_mistake_in_a_first_run_alone(
    days: tuple[int, ...], level: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with open_crawl(tmp_path, **KEYED, HACS_WATCH_IGNORE=["seen"]) as crawl:
        part, response = crawl.parts.of(LastItems), Response(URL)
        page, rules = Page(URL), crawl.config.rules.fingerprint
        for day in (*days, 2):
            recorded = merged(page, Visit(URL, day * 86_400, marks=frozenset({7, 8}), rules=rules))
            page = recorded.after
        for item in of(7, 7):
            part.shown(response, item, frozenset(), may_be_news=True)
        part.observed(Observed(Request(URL), response, recorded, ""))
        part.sum_up()
    useless = (
        "HACS_WATCH_KEY = 'id' distinguishes nothing: all items of a page have the same, such as 7"
    )
    for said in ("HACS_WATCH_IGNORE: none of 2 items has seen", useless):
        found = [entry.levelname for entry in caplog.records if entry.message.startswith(said)]
        assert found == [level]
