"""What was seen of a run, by request."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fuzz.scenario import Page, Scenario
from fuzz.spiders import KINDS

NO_PAGES = ("/robots.txt", "/sitemap.xml", "/part.xml", "/feed.xml", "?inline")
"""How URLs end that are of no page, or of none that the add-on knows of."""
ENDS = ("answered", "failed", "dropped")
_PAGE = re.compile(r"/p(\d+)\Z")
_SESSION = re.compile(r"\?sid=.*|(?<=/)r\d+x\d+")


@dataclass(frozen=True)
class Yielded:
    """A request that the spider yielded."""

    number: str
    method: str
    url: str
    is_start: bool
    hacs: Any


class Run:
    """One run of a scenario, which is several crawls where its spider is stopped and goes on."""

    def __init__(self, scenario: Scenario, seen: dict[str, Any]) -> None:
        self.scenario = scenario
        self.kind = KINDS[scenario.spider]
        self.parts: list[dict[str, Any]] = seen["parts"]
        states: list[dict[str, Any]] = seen["states"]
        self.visits, self.updates = (
            {url: times for state in states for url, times in state[name].items() if times}
            for name in ("visits", "updates")
        )
        self.faults_of_states: list[str] = [fault for state in states for fault in state["faults"]]
        self.at: int = seen["at"]
        self.reason: str = self.parts[-1]["reason"]
        self.yielded = {
            number: Yielded(number, *others) for _, number, *others in self.events("yielded")
        }

    def events(self, *names: str) -> Iterator[list[Any]]:
        for part in self.parts:
            yield from _events(part, *names)

    def log(self) -> Iterator[str]:
        return (line for part in self.parts for line in part["log"])

    def site(self) -> Iterator[dict[str, Any]]:
        """What the site was asked."""
        return (asked for part in self.parts for asked in part["site"])

    def stat(self, name: str) -> int:
        return sum(int(part["stats"].get(f"hacs/{name}", 0)) for part in self.parts)

    def settings_on(self) -> set[str]:
        """The settings that are given, but for those that switch something off."""
        settings = self.scenario.settings.items()
        return {name for name, value in settings if value not in ("never", None, False)}

    def page(self, url: str) -> Page | None:
        """The page whose URL it is."""
        found = _PAGE.search(url)
        return self.scenario.pages[int(found[1])] if found else None

    def is_of_now(self, times: list[int]) -> bool:
        """Whether one of the times is of this run, in which the clock stands still."""
        return any(self.at <= at < self.at + 3600 for at in times)

    def ends(self) -> dict[str, list[str]]:
        """How each request ended that the spider yielded."""
        found: dict[str, list[str]] = {number: [] for number in self.yielded}
        for name, number, *_ in self.events(*ENDS):
            if number in found:
                found[number].append(name)
        return found

    def pages_sent(self, part: dict[str, Any]) -> list[str]:
        """The URLs of requests for pages under care that were sent, each request once, and revisits."""
        numbers: dict[str, str] = {}
        for _, number, _, url, goes_on in _events(part, "asked"):
            request = self.yielded.get(number)
            is_revisit = number is None and not goes_on and not url.endswith(NO_PAGES)
            if is_revisit or (request is not None and self.is_under_care(request)):
                numbers.setdefault(number or url, url)
        return [*numbers.values()]

    def is_under_care(self, request: Yielded) -> bool:
        """Whether a request is for a page, by docs/every-page.md."""
        if request.method != "GET" or request.hacs is False:
            return False
        if request.hacs is True:
            return True
        pages = self.scenario.settings.get("HACS_PAGES", "start")
        if request.url.endswith(NO_PAGES):
            return False
        if self.reads_lists and pages == "start":
            return not request.is_start
        if pages == "start":
            return request.is_start
        return pages == "all" or any(re.search(one, request.url) for one in pages)

    @property
    def reads_lists(self) -> bool:
        return self.scenario.spider in {"Maps", "Feeds"}

    def requests_made(self) -> Counter[str]:
        """What the site was asked for, and how it answered."""
        return Counter(
            f"{asked['method']} {_SESSION.sub('*', asked['url'])} {asked['status']}"
            for asked in self.site()
        )

    def items(self) -> Counter[str]:
        items = (str(item) for part in self.parts for item in part["items"])
        return Counter(_SESSION.sub("*", item) for item in items)


def _events(part: dict[str, Any], *names: str) -> Iterator[list[Any]]:
    return (event for event in part["events"] if event[0] in names)
