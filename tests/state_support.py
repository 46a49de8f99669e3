"""Pages, visits, and a store that two processes change in turns, for tests of the state."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from hacs_crawler.state import Estimation, Page, State, Store, Visit, open_state
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


class Late:
    """A store that another process writes to just after a note of it was read."""

    def __init__(self, store: Store, *writes: Callable[[], object]) -> None:
        self._store = store
        self._writes = list(writes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def read_meta(self, key: str) -> Any:
        found = self._store.read_meta(key)
        self._write()
        return found

    def annotations(self, kind: str, keys: Sequence[int]) -> dict[int, bytes]:
        found = self._store.annotations(kind, keys)
        self._write()
        return found

    def _write(self) -> None:
        if self._writes:
            self._writes.pop(0)()
