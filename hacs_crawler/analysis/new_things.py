"""The new things that visits to all pages of a state found, newest first."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from hacs_crawler.analysis.tables import Table, table, times
from hacs_crawler.exceptions import HacsError
from hacs_crawler.links import link_fingerprint
from hacs_crawler.model import CHURNING
from hacs_crawler.ranking.plan import read_rows
from hacs_crawler.state import FIRST, OPEN, PAGES_A_CALL, Finding, Page, State, all_findings
from hacs_crawler.utils.text import printable

# Texts of links that say nothing about what they lead to, such as "2", "next page" and "»".
_IS_BARE: Final = re.compile(r"(?:next|prev(?:ious)?|page|[\W\d_])*", re.IGNORECASE).fullmatch


class NewThing(NamedTuple):
    """A new thing, and the page that showed it."""

    page: str
    title: str
    found: Finding

    @property
    def text(self) -> str:
        """Its text; for a link without one, or with a bare one, the end of its URL, or the URL."""
        text, end = self.found.text, self.where.rstrip("/").rpartition("/")[2]
        if text and not (self.found.kind == "link" and _IS_BARE(text)):
            return text
        return self.where if _IS_BARE(end) else end

    @property
    def where(self) -> str:
        """The thing's own URL, else the page's."""
        return self.found.url or self.page


def newest(state: State, since: float = 0, host: str = "") -> tuple[list[NewThing], Counter[str]]:
    """Return the things found at or after a second since 1970 UTC, newest first; raises StateError.

    With a `host`, only pages of the host and its subdomains count. On pages that churn, only links
    count that two consecutive visits showed; the counter has the number of others, by page.
    """
    entries = [
        (thing.at, page_id, thing, findings.title)
        for page_id, findings in all_findings(state.store)
        for thing in findings.things
        if thing.at >= since and thing.kind != FIRST
    ]
    entries.sort(key=lambda entry: entry[:2], reverse=True)
    is_of_host = _hosted_by(host)
    things, held_back = list[NewThing](), Counter[str]()
    for start in range(0, len(entries), PAGES_A_CALL):
        batch = entries[start : start + PAGES_A_CALL]
        pages = state.load(list({page_id for _, page_id, _, _ in batch}))
        lasting = {
            page_id: _lasting(page) for page_id, page in pages.items() if page.churn >= CHURNING
        }
        taken_back = {  # visits that turned out to show a block page or a change of template
            page_id: {*page.visits}.difference(page.sound.update_times)
            for page_id, page in pages.items()
        }
        for _, page_id, thing, title in batch:
            url = printable(pages[page_id].url) if page_id in pages else ""
            if not url or not is_of_host(url) or thing.at in taken_back[page_id]:
                continue
            if (
                thing.kind == "link"
                and page_id in lasting
                and link_fingerprint(thing.url) not in lasting[page_id]
            ):
                held_back[url] += 1
            else:
                things.append(NewThing(url, title, thing))
    return things, held_back


def first_visited(state: State, since: float, host: str = "") -> list[str]:
    """Return the URLs of pages first visited at or after a second since 1970 UTC; raises StateError.

    With a `host`, these are pages of the host and its subdomains.
    """
    page_ids, rows = read_rows(state)
    # a row has no first visit, but its last update is no earlier
    late = page_ids[(rows["visits"] > 0) & (rows["last_update"] >= since)].tolist()
    is_of_host = _hosted_by(host)
    return [
        printable(page.url)
        for start in range(0, len(late), PAGES_A_CALL)
        for page in state.load(late[start : start + PAGES_A_CALL]).values()
        if min(page.sound.visits, default=0) >= since and is_of_host(page.url)
    ]


def check_host(state: State, host: str) -> None:
    """Raise HacsError if a state knows no page of a host, or of hosts below it."""
    if not any(map(_hosted_by(host), state.urls())):
        alone = f"; a host alone is {urlsplit(host).netloc}" * ("://" in host)
        raise HacsError(f"the state knows no page of the host {host}{alone}")


def _hosted_by(host: str) -> Callable[[str], bool]:
    name = host.lower().partition(":")[0].removeprefix("www.")
    ending = f".{name}" * bool(name)
    return lambda url: f".{urlsplit(url).hostname or ''}".endswith(ending)


def _lasting(page: Page) -> set[int]:
    """Return the marks that two consecutive visits showed; advertisements, for example, change."""
    latest = page.shown_at[-1:]
    return {
        mark
        for first, last, marks in page.spells.each()
        if last != first and not (last == OPEN and first in latest)
        for mark in marks
    }


def newest_table(things: Sequence[NewThing]) -> Table:
    """Return a row for each new thing: the time of the visit, the page, the thing, and its URL."""
    findings = [thing.found for thing in things]
    texts = {
        "page": [thing.page for thing in things],
        "title": [thing.title for thing in things],
        "kind": [finding.kind for finding in findings],
        "text": [thing.text for thing in things],
        "was": [finding.was for finding in findings],
        "url": [thing.where for thing in things],
    }
    return table({"found_at": times([finding.at for finding in findings]), **texts}, texts=texts)
