"""Pages and visits for tests of the state."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from hacs_crawler.state import Estimation, Page, State, Visit, open_state
from hacs_crawler.state.merging import merge
from hacs_crawler.utils.times import DAY

URL = "http://example.edu/~a/"


def visit(url: str, day: int, *links: int) -> Visit:
    return Visit(url, day * DAY, marks=frozenset(links))


@contextmanager
def opened(address: str, namespace: str = "hacs", folder: Path = Path()) -> Iterator[State]:
    """The state at an address, as it is opened to be written to."""
    with closing(open_state(address, namespace, folder, Estimation())) as state:
        yield state


def page_after(*visits: Visit, **facts: Any) -> Page:
    page = Page(URL, **facts)
    for one in visits:
        merge(page, one)
    return page
