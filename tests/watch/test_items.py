"""Items as marks: equal ones are the same, whatever they are made of."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from random import Random
from typing import Any

import pytest
import scrapy

from hacs_crawler.state import Estimation, Page, Visit
from hacs_crawler.state.merging import merge
from hacs_crawler.utils.times import DAY
from hacs_crawler.watch import UnreadableMarksError, content_of
from hacs_crawler.watch.items import canonical_item, fields_like, item_rules


class Kettle(scrapy.Item):
    name = scrapy.Field()
    price = scrapy.Field()


@dataclass
class DataKettle:
    name: str
    price: Decimal


class Colour(Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("item", "before"),
    [
        ({"price": 5, "name": "Kettle", "old_price": None}, [4, 4.5, True, "sold out"]),
        (Kettle(name="Kettle", price=5.0), [4.0, 4.5, True, "sold out"]),
        (DataKettle("Kettle", Decimal("5.00")), [Decimal(4), Decimal("4.5"), True, "sold out"]),
    ],
)
def test_items_have_one_form_and_numbers_as_before(item: Any, before: list[Any]) -> None:
    assert canonical_item(item) == (b'{"name":"Kettle","price":5}', False)
    was = [fields_like(item, {"price": price, "name": 1}) for price in (4, "4.5", True, "sold out")]
    assert repr(was) == repr([{"price": price, "name": 1} for price in before])


EAST = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        (Decimal("19.90"), Decimal("19.9"), True),
        ({3, 1, 2}, frozenset([2, 3, 1]), True),
        ((1, 2), [1, 2], True),
        ({"b": 1, "a": {2, 1}}, {"a": {1, 2}, "b": 1}, True),
        (datetime(2026, 1, 1, 2, tzinfo=EAST), datetime(2026, 1, 1, tzinfo=UTC), True),
        (Colour.RED, "red", True),
        (Kettle(name="K"), {"name": "K"}, True),
        (float("nan"), float("nan"), True),
        (0.1 + 0.2, 0.3, True),
        ("a  caf\u00e9\n", "a cafe\u0301", True),
        (["ca\u00adfe"], ["cafe"], True),
        ("\u0645 \u200f\u061c\u0648", "\u0645 \u2067\u0648\u2069", True),
        ("\u260e\ufe0f", "\u260e", True),
        ("cut \ud83d", "cu\u180et", True),
        ([1, 2], [2, 1], False),
        ("5", 5, False),
        (True, 1, False),
        (date(2026, 1, 1), date(2026, 1, 2), False),
        (Decimal("0.1"), Decimal("0.10000000001"), False),
        (2**60, 2**60 + 1, False),
        (b"a", b"b", False),
    ],
)
def test_equal_values_are_the_same_and_others_not(first: Any, second: Any, is_same: bool) -> None:
    assert (canonical_item({"a": first}) == canonical_item({"a": second})) is is_same


def test_a_value_that_is_another_at_each_run_is_named_with_its_field() -> None:
    with pytest.raises(UnreadableMarksError, match=r"'offers\.seller' of an item holds <object"):
        canonical_item({"offers": {"seller": object()}})


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ("a text", "is not an item"),
        ({"a": Decimal("sNaN")}, "ValueError"),
        ({"\ud83d": 1}, "Unicode"),
    ],
)
def test_what_is_no_item_or_has_no_form_is_refused(item: object, problem: str) -> None:
    with pytest.raises(UnreadableMarksError, match=problem):
        item_rules(key="a").marks_of(item)


def test_fields_are_chosen_or_left_out() -> None:
    seen = {"name": "Kettle", "price": 5, "scraped_at": "now"}
    later = {**seen, "scraped_at": "later"}
    dearer = {**later, "price": 6}
    ignoring = item_rules(ignore=["scraped_at"])
    assert ignoring.marks_of(seen) == ignoring.marks_of(later) != ignoring.marks_of(dearer)
    chosen = item_rules(["name"])
    assert chosen.marks_of(seen) == chosen.marks_of(dearer)
    assert item_rules().marks_of(seen) != item_rules().marks_of(later)


def test_the_choice_of_fields_is_part_of_the_rules() -> None:
    found = [item_rules(), item_rules(["a"]), item_rules(ignore=["a"])]
    assert len({rules.fingerprint for rules in found}) == 3
    assert item_rules(["b", "a"]).fingerprint == item_rules(["a", "b"]).fingerprint


def test_points_that_change_at_every_visit_do_not_hide_how_often_a_list_gains_an_item() -> None:
    """A listing of thirty: one version in ten has another item, all have other points."""
    rules = item_rules(ignore=["points", "comments"])
    draw = Random(3)
    items, number, gains = list(range(30)), 30, 0
    page = Page("http://news.example/")
    for day in range(300):
        if draw.random() < 0.1:
            items, number, gains = [number, *items[:-1]], number + 1, gains + 1
        shown = [{"id": one, "points": draw.random(), "comments": day} for one in items]
        marks = frozenset[int]().union(*map(rules.marks_of, shown))
        at = 1_700_000_000 + day * DAY
        merge(page, Visit(page.url, at, marks=marks, rules=7))
    estimation = Estimation(fade_days=float("inf"))
    assert estimation.rate_per_day(page) == pytest.approx(gains / 300, rel=0.3)


def test_an_item_of_the_address_of_its_own_page_alone_is_a_mark_of_its_page() -> None:
    urls = "http://a.example/1", "http://a.example/2"
    here, there = (item_rules().of_page(url, url) for url in urls)
    assert not here.marks_of({"url": urls[0], "title": None})
    marks = here.marks_of({"url": urls[0]}), there.marks_of({"url": urls[1]})
    assert len(frozenset().union(*marks)) == 2


def test_the_address_of_its_own_page_is_no_content_of_an_item() -> None:
    rules = item_rules()
    page, other = (
        rules.of_page(f"http://a.example/p/1042{n}?a=1", f"https://a.example/p/1042{n}?a=1&b=")
        for n in "12"
    )

    def error(number: int, **fields: object) -> dict[str, object]:
        return {"url": f"https://a.example/p/1042{number}?a=1&b=", "name": "Error", **fields}

    marks = {*page.marks_of(error(1)), *other.marks_of(error(2))}
    assert (len(marks), len({content_of(frozenset({mark})) for mark in marks})) == (2, 1)
    assert {*rules.marks_of(error(1)), *page.marks_of(error(2))}.isdisjoint(page.marks_of(error(1)))
    assert rules.marks_of(error(2)) == page.marks_of(error(2)), "of another page, as in a list"
    assert not page.marks_of({"url": "http://a.example/p/10421?a=1", "name": None, "tags": []})
    without_path = rules.of_page("http://a.example")
    assert without_path.marks_of({"a": "", "b": 1}) == rules.marks_of({"a": "", "b": 1})
