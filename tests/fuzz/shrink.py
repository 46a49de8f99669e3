"""Makes a scenario that fails smaller, as long as the same invariant does not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from fuzz.scenario import Page, Scenario


def shrunk(scenario: Scenario, fails: Callable[[Scenario], bool], most: int = 300) -> Scenario:
    """Return the smallest scenario that was found; `fails` is asked at most so many times."""
    tries = 0
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for smaller in _smaller(scenario):
            if smaller == scenario:
                continue
            tries += 1
            if tries > most:
                return scenario
            if fails(smaller):
                scenario, is_smaller = smaller, True
                break
    return scenario


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    """Yield scenarios that are simpler by a step, the largest steps first."""
    settings = scenario.settings
    if len(settings) > 1:
        yield replace(scenario, settings={})
    for name in settings:
        yield replace(scenario, settings={key: settings[key] for key in settings if key != name})
    for field in msgspec.structs.fields(Scenario):
        if field.name in {"state", "sitemap", "robots", "spider"}:
            yield replace(scenario, **{field.name: field.default})
    yield from _shorter(scenario)
    for number, page in enumerate(scenario.pages):
        for one in _simpler(page):
            pages = (*scenario.pages[:number], one, *scenario.pages[number + 1 :])
            yield replace(scenario, pages=pages)


def _shorter(scenario: Scenario) -> Iterator[Scenario]:
    for number in range(1, len(scenario.days)):
        yield replace(scenario, days=scenario.days[:number])
    if len(scenario.starts) > 1:
        for number in reversed(range(len(scenario.starts))):
            yield replace(scenario, starts=_but(scenario.starts, number))
    if len(scenario.pages) > 1:
        for number in reversed(range(len(scenario.pages))):
            yield without_page(scenario, number)


def _simpler(page: Page) -> Iterator[Page]:
    yield replace(page, kind="plain", to=0)
    yield replace(page, host=1)
    for number in range(len(page.links)):
        yield replace(page, links=_but(page.links, number))


def without_page(scenario: Scenario, number: int) -> Scenario:
    """Return a scenario without a page, and what leads to it."""

    def moved(other: int) -> int:
        return other - (other > number)

    def page(one: Page) -> Page:
        links = tuple((moved(to), day) for to, day in one.links if to != number)
        leads = one.kind in {"redirect", "refresh", "twin"}
        if leads and one.to == number:
            return Page(links=links, host=one.host)
        return replace(one, links=links, to=moved(one.to) if leads else one.to)

    pages = tuple(page(one) for at, one in enumerate(scenario.pages) if at != number)
    starts = tuple(moved(one) for one in scenario.starts if one != number)
    return replace(scenario, pages=pages, starts=starts or (0,))


def _but(values: tuple[Any, ...], number: int) -> tuple[Any, ...]:
    return values[:number] + values[number + 1 :]
