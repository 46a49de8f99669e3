"""Two processes that change one state in turns."""

from collections.abc import Callable, Sequence
from typing import Any

from hacs_crawler.state import Store


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
