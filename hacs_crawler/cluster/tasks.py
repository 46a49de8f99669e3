"""Functions called by a Dask cluster, or by this process in its place."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hacs_crawler.exceptions import ConfigError

if TYPE_CHECKING:
    from distributed import Client, Future

T = TypeVar("T")


class Workers:
    """What calls functions: this process, or a cluster."""

    def mapped(self, function: Callable[..., T], items: Iterable[Any], *args: Any) -> Iterator[T]:
        """Yield what a function of each item returns, in the order of the items."""
        return (function(item, *args) for item in items)


HERE: Final = Workers()


class Cluster(Workers):
    """A connected cluster; made by `connected`."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def check_here(self, reason: str) -> None:
        """Raise ConfigError with that reason where a worker is on another machine."""
        here = socket.gethostname()
        for worker, host in self.client.run(_host_name).items():
            if host != here:
                raise ConfigError(f"{reason}: the Dask worker at {worker} is on {host}")

    def submit(self, function: Callable[..., Any], *args: Any) -> Future:
        """Have a function called by some worker; results of other tasks may be arguments."""
        return self.client.submit(function, *args, pure=False)

    def mapped(self, function: Callable[..., T], items: Iterable[Any], *args: Any) -> Iterator[T]:
        """See `Workers.mapped`."""
        futures = deque(self.submit(function, item, *args) for item in items)
        while futures:  # each is forgotten once it is yielded, which frees a worker's memory
            yield futures.popleft().result()


def _host_name() -> str:
    return socket.gethostname()
