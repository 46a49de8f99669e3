"""The spider `wayback`, run as a user runs it, against an archive that tests fill."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from msgspec.structs import replace
from scrapy.http import HtmlResponse

import forks
from hacs_crawler.archive.capture import parse_timestamp
from hacs_crawler.links.extract import LinkRules, link_fingerprints
from hacs_crawler.state.codec import encode_page
from hacs_crawler.state.page import Page, Visit
from integration_support import Crawl, Project
from state_support import opened
from wayback_machine import Asked, WaybackMachine, page

PAUSE_SECONDS = 0.2
QUICK = {"cdx_per_minute": 0, "mementos_per_minute": 0, "archive_pause_seconds": PAUSE_SECONDS}


@dataclass
class Bootstrap:
    """An archive, and a state that is filled from it."""

    project: Project
    archive: WaybackMachine = field(default_factory=WaybackMachine)

    def __enter__(self) -> Self:
        self.archive.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.archive.__exit__()

    def run(
        self,
        seeds: str | list[str],
        *arguments: str,
        stdin: str = "",
        status: int = 0,
        **settings: object,
    ) -> Crawl:
        given = {"stdin": stdin, "status": status, **self._settings(settings)}
        return self.project.crawl(seeds, *arguments, spider="wayback", **given)

    def start(self, seeds: list[str], *arguments: str, **settings: object) -> forks.Started:
        return self.project.start(seeds, *arguments, spider="wayback", **self._settings(settings))

    def pages(self) -> dict[str, Page]:
        with opened(self.project.state) as state:
            return {page.url: page for page in state.pages() if page}

    def state(self) -> "Known":
        """Every page as bytes, but for its rate, its version and how far it is harvested."""
        return known(self.pages())

    def asked(self) -> list[str]:
        """What was asked for since the last call, but for robots.txt: "cdx" or a memento."""
        asked = (one for one in self.forget() if one.kind != "other")
        return ["cdx" if one.kind == "cdx" else one.memento for one in asked]

    def forget(self) -> list[Asked]:
        asked = self.archive.asked.copy()
        self.archive.asked.clear()
        return asked

    def _settings(self, given: Mapping[str, object]) -> dict[str, object]:
        """Settings of a crawl; keys in lower case are the archive's."""
        urls = {"cdx_url": self.archive.cdx_url, "memento_url": self.archive.memento_url}
        of_archive = {name: value for name, value in given.items() if name.islower()}
        settings = {name: value for name, value in given.items() if not name.islower()}
        return {"HACS_ARCHIVES": json.dumps({**QUICK, **urls, **of_archive}), **settings}


Known = dict[str, tuple[bytes, list[int], frozenset[int]]]


def known(pages: Mapping[str, Page]) -> Known:
    """What is known of pages: as bytes, their updates and their links; see `Bootstrap.state`.

    Rates are left out: how they are rounded depends on the pages they are estimated together with. So
    are when links were seen, because content that is not fetched again shows none again, and links that
    were new to the site, which hang on the order of recording.
    """
    estimated = ("rate", "share", "fast", "slow", "churn", "churning")
    plain = {"version": 0, "harvests": {}, "is_in_site": False} | dict.fromkeys(estimated, 0.0)
    plain |= {"spells": Page("").spells, "rule_changes": {}, "echoes": []}
    return {
        url: (
            encode_page(replace(page, **plain)),
            list(page.update_times),
            frozenset(page.spells.marks),
        )
        for url, page in pages.items()
    }


def recorded_directly(folder: Path, visits: Sequence[Visit]) -> dict[str, Page]:
    """The pages as they are after the visits were recorded without an archive."""
    with opened(f"sqlite:///{folder}/direct.db") as state:
        state.record(visits)
        return {page.url: page for page in state.pages() if page}


def visit(url: str, at: str, *links: str) -> Visit:
    """A live visit of a page that showed these links."""
    root = HtmlResponse(url, body=page(*links), encoding="utf-8").selector.root
    rules = LinkRules(citations=True).fingerprint
    return Visit(url, second(at), marks=link_fingerprints(root, url), rules=rules)


def second(at: str) -> int:
    return parse_timestamp(at)


def months(number: int) -> Iterator[str]:
    """Timestamps a month apart."""
    for index in range(number):
        yield f"{2010 + index // 12}{index % 12 + 1:02}15120000"
