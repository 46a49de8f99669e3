"""What the tests of failures share: moments of a crawl, and a look at what it left."""

from collections.abc import Callable

from hacs_crawler.links import page_id_of
from hacs_crawler.state import SEEN, Page, Visit, sorted_outcomes
from hacs_crawler.state.rows import encode_row
from integration_support import Crawl
from servers import Site
from state_support import opened

PAGES = 60
PROMPT = {"HACS_FLUSH_VISITS": 5, "DOWNLOAD_DELAY": 0.02, "LOG_LEVEL": "DEBUG"}
"""Settings with which a crawl writes often and lasts long enough for something to happen."""


class Moments(list[str]):
    """The requests that a site gets; calls a function when so many have come."""

    def __init__(self, moments: dict[int, Callable[[], object]]) -> None:
        super().__init__()
        self._moments = moments

    def append(self, path: str) -> None:
        super().append(path)
        act = self._moments.pop(len(self), None)
        if act is not None:
            act()


def fill(site: Site, pages: int = PAGES) -> list[str]:
    for number in range(pages):
        site.set(f"/{number}/", f"/{number}/x.pdf", f"/{number}/y.pdf")
    return [f"{site.url}/{number}/" for number in range(pages)]


def visits_of(urls: list[str], at: int = 1_700_000_000) -> list[Visit]:
    return [Visit(url, at, marks=frozenset({1, 2})) for url in urls]


def record(url: str, visits: list[Visit], namespace: str = "hacs") -> None:
    with opened(url, namespace) as state:
        state.record(visits)


def whole_pages(url: str, namespace: str = "hacs") -> dict[int, Page]:
    """Read a whole state; see that each page has its row, and each record of a visit its visit."""
    with opened(url, namespace) as state:
        rows = {
            key: row.tobytes()
            for ids, batch in state.store.all_rows()
            for key, row in zip(ids.tolist(), batch, strict=True)
        }
        pages = state.load(list(rows))
        assert {key: encode_row(page) for key, page in pages.items()} == rows
        records = sorted_outcomes(state.store.outcomes())
    seen = records[records["flags"] & SEEN > 0]
    recorded = set(zip(seen["page_id"].tolist(), seen["at"].tolist(), strict=True))
    assert recorded <= {(key, at) for key, page in pages.items() for at in page.visits}
    return pages


def assert_nothing_is_lost(crawl: Crawl, state: str, urls: list[str], visits: int = 1) -> None:
    """See that a crawl ended well, and that the state has all its visits and those before it."""
    assert crawl.stat("hacs/state/lost") == 0
    pages = whole_pages(state)
    assert {key: len(page.visits) for key, page in pages.items()} == {
        page_id_of(url): visits for url in urls
    }
