"""What was seen of a run, by request."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fuzz.scenario import Page, Scenario
from fuzz.settings_drawn import CLOSING
from fuzz.spiders import KINDS

NO_PAGES = ("/robots.txt", "/sitemap.xml", "/part.xml", "/feed.xml", "?inline")
"""How URLs end that are of no page, or of none that the add-on knows of."""
_PAGE = re.compile(r"/p(\d+)\Z")
_CHANGING = re.compile(r"(?<=\d):\d+|\?sid=.*|(?<=/)r\d+x\d+")
"""The site's port, and what it puts into links anew each time."""


@dataclass(frozen=True)
class Yielded:
    number: str
    method: str
    url: str
    is_start: bool
    hacs: Any
    given: str
    """What the spider gave to it."""


class Run:
    """One run of a scenario, which is several crawls where its spider is stopped and goes on."""

    def __init__(self, scenario: Scenario, seen: dict[str, Any]) -> None:
        self.scenario = scenario
        self.kind = KINDS[scenario.spider]
        self.parts: list[dict[str, Any]] = seen["parts"]
        self.states: list[dict[str, Any]] = seen["states"]
        self.visits, self.updates = self._by_url("visits"), self._by_url("updates")
        self.at: int = seen["at"]
        self.reason: str = self.parts[-1]["reason"]
        self.ends_early = self.kind.ends_early or bool(CLOSING.keys() & scenario.settings.keys())
        """Whether requests may be left when it ends."""
        self.yielded = {number: Yielded(number, *more) for number, *more in self.events("yielded")}

    def _by_url(self, name: str) -> dict[str, list[int]]:
        entries = [entry for state in self.states for entry in state[name].items()]
        return {url: times for url, times in entries if times}

    def events(self, name: str) -> list[list[Any]]:
        """The number of the request of each event, and what more is known."""
        return [event for part in self.parts for event in _events(part, name)]

    def log(self) -> Iterator[str]:
        return (line for part in self.parts for line in part["log"])

    def site(self) -> Iterator[dict[str, Any]]:
        return (asked for part in self.parts for asked in part["site"])

    def stat(self, name: str) -> int:
        return sum(int(part["stats"].get(f"hacs/{name}", 0)) for part in self.parts)

    def settings_on(self) -> set[str]:
        """The settings that are given, but for those that switch something off."""
        settings = self.scenario.settings.items()
        return {name for name, value in settings if value not in ("never", None, False)}

    def page(self, url: str) -> Page | None:
        found = _PAGE.search(url)
        return self.scenario.pages[int(found[1])] if found else None

    def is_of_now(self, times: list[int]) -> bool:
        """Whether one of the times is of this run, in which the clock stands still."""
        return any(self.at <= at < self.at + 3600 for at in times)

    def ends(self) -> dict[str, list[str]]:
        """How each request ended that the spider yielded."""
        found: dict[str, list[str]] = {number: [] for number in self.yielded}
        for name in ("answered", "failed", "dropped"):
            for number, *_ in self.events(name):
                found.get(number, []).append(name)
        return found

    def pages_sent(self, part: dict[str, Any]) -> list[str]:
        """The URLs of requests for pages under care that were sent, each request once, and revisits."""
        numbers: dict[str, str] = {}
        for number, url, goes_on in _events(part, "asked"):
            if goes_on and number not in numbers:  # a retry of a request of the part before
                continue
            request = self.yielded.get(number)
            is_revisit = number is None and not goes_on and not url.endswith(NO_PAGES)
            if is_revisit or (request is not None and self.is_under_care(request)):
                numbers.setdefault(number or url, url)
        return [*numbers.values()]

    def is_under_care(self, request: Yielded) -> bool:
        """Whether a request is for a page, by docs/pages.md."""
        if request.method != "GET" or request.hacs is False:
            return False
        if request.hacs is True:
            return True
        pages = self.scenario.settings.get("HACS_PAGES", "start")
        if request.url.endswith(NO_PAGES):
            return False
        if pages == "start":
            reads_lists = self.scenario.spider in {"Maps", "Feeds"}
            return request.is_start != reads_lists
        return pages == "all" or any(re.search(one, request.url) for one in pages)

    def requests_made(self) -> Counter[str]:
        return Counter(
            f"{asked['method']} {_CHANGING.sub('*', asked['url'])} {asked['status']}"
            for asked in self.site()
        )

    def items(self) -> Counter[str]:
        items = (str(item) for part in self.parts for item in part["items"])
        return Counter(_CHANGING.sub("*", item) for item in items)


def _events(part: dict[str, Any], name: str) -> list[list[Any]]:
    return [more for kind, *more in part["events"] if kind == name]
