"""From captures to visits: what has to be fetched, and what need not be."""

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from hacs_crawler.archive import Capture
from hacs_crawler.archive.capture import REVISIT
from hacs_crawler.harvest.page import Step, steps, thinned
from hacs_crawler.state.merging import merge
from hacs_crawler.state.page import Harvest, Page, Visit

URL = "http://foo.edu/"
SOURCE = 7
RULES = 9
TIMES = st.lists(st.integers(1, 2**31), min_size=1, max_size=80, unique=True).map(sorted)


def capture(at: int, digest: str = "A", mime: str = "text/html") -> Capture:
    return Capture("edu,foo)/", URL, at, 200, mime, digest)


def captures(*digests: str) -> list[Capture]:
    """A capture a second; "" is a revisit record without a digest, "=A" one with it."""
    return [
        capture(at, digest.removeprefix("="), "text/html" if digest[:1].isalpha() else REVISIT)
        for at, digest in enumerate(digests, 1)
    ]


HISTORIES = st.lists(st.sampled_from(["A", "B", "C", "D", "=A", "=B", ""]), max_size=30).map(
    lambda digests: captures(*digests)
)


def flags(found: list[Step]) -> str:
    """A letter a step: f where the memento is fetched."""
    return " ".join("f"[not one.is_new :] or "-" for one in found)


@pytest.mark.parametrize(
    ("digests", "expected"),
    [
        (["A"], "f"),
        (["A", "A", "A"], "f - -"),
        (["A", "B", "A"], "f f -"),
        (["A", "=A", "", "B"], "f - - f"),
        (["", "", "A"], "f - f"),
        (["A", "=B"], "f f"),
    ],
)
def test_only_content_not_had_before_is_fetched(digests: list[str], expected: str) -> None:
    assert flags(list(steps(captures(*digests), None))) == expected


def shown_by(history: list[Capture]) -> dict[int, frozenset[int]]:
    """The links of every capture: those of its content, which a revisit record took over."""
    shown, content = {}, ""
    for one in history:
        content = one.digest or content
        shown[one.at] = frozenset({0, *map(ord, content[:1]), len(content)})
    return shown


def harvested(page: Page, history: list[Capture], links: dict[int, frozenset[int]]) -> Page:
    """Record a page's captures, fetching only what has to be."""
    for step in list(steps(history, page.harvests.get(SOURCE))):
        at = step.capture.at
        harvest = Harvest(SOURCE, at, step.digest)
        shown = links[at] if step.is_new else None
        merge(page, Visit(URL, at, marks=shown, rules=RULES, harvest=harvest))
    return page


def but_for_spells(page: Page) -> tuple[Page, list[int], set[int]]:
    """The page, its updates, and its links; what is not fetched again shows none again."""
    cleared = replace(page, spells=Page(URL).spells, rule_changes={})
    return cleared, list(page.update_times), set(page.spells.marks)


@given(HISTORIES)
def test_fetching_only_new_content_gives_the_same_page_as_fetching_all(
    history: list[Capture],
) -> None:
    links = shown_by(history)
    page = harvested(Page(URL), history, links)
    everything = Page(URL)
    for one in history:
        merge(everything, Visit(URL, one.at, marks=links[one.at], rules=RULES))
    page.harvests.clear()
    assert but_for_spells(page) == but_for_spells(everything)


@given(HISTORIES, st.integers(0, 30))
def test_a_harvest_broken_off_and_taken_up_again_gives_the_same_page(
    history: list[Capture], broken_after: int
) -> None:
    links = shown_by(history)
    page = harvested(Page(URL), history[:broken_after], links)
    again, at_once = harvested(page, history, links), harvested(Page(URL), history, links)
    assert but_for_spells(again) == but_for_spells(at_once)


@given(HISTORIES)
def test_there_is_a_step_for_each_capture_and_a_second_harvest_has_none(
    history: list[Capture],
) -> None:
    assert [one.capture for one in steps(history, None)] == history
    if history:
        assert not list(steps(history, Harvest(SOURCE, history[-1].at)))


@given(TIMES, st.integers(1, 90))
def test_thinning_keeps_as_many_as_asked_for_the_first_and_the_last(
    times: list[int], most: int
) -> None:
    found = [one.at for one in thinned(list(map(capture, times)), most)]
    assert len(found) == min(most, len(times))
    assert found == sorted(set(found) & set(times))
    assert found[-1] == times[-1]
    assert most == 1 or found[0] == times[0]


@given(TIMES, st.integers(2, 90))
def test_no_capture_left_out_is_farther_from_the_kept_than_these_are_from_each_other(
    times: list[int], most: int
) -> None:
    found = [one.at for one in thinned(list(map(capture, times)), most)]
    closest = min((later - at for at, later in pairwise(found)), default=2**32)
    for at in set(times) - set(found):
        assert min(abs(at - one) for one in found) <= closest


@given(TIMES, st.lists(st.sampled_from("ABC"), min_size=80, max_size=80), st.integers(1, 90))
def test_thinning_goes_by_time_alone(times: list[int], digests: list[str], most: int) -> None:
    mixed = [capture(at, digest) for at, digest in zip(times, digests, strict=False)]
    same = [capture(at) for at in times]
    assert [one.at for one in thinned(mixed, most)] == [one.at for one in thinned(same, most)]


def test_evenly_spaced_captures_are_thinned_to_evenly_spaced_ones() -> None:
    found = thinned(list(map(capture, range(1, 42))), 5)
    assert [one.at for one in found] == [1, 11, 21, 31, 41]
