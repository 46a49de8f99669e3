"""What is asked of a Dask cluster: functions of arguments, some of which are results of others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from distributed import Client, Future

P = ParamSpec("P")
T = TypeVar("T")


class Cluster:
    """A connected cluster; made by `connected`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def cores(self) -> int:
        """How many tasks run at a time, at least 1."""
        return max(1, int(sum(self._client.nthreads().values())))

    def submit(self, function: Callable[..., Any], *args: Any) -> Future:
        """Have a function called by some worker; results of other tasks may be arguments."""
        return self._client.submit(function, *args, pure=False)

    def kept(self, value: Any) -> Future:
        """Give a value to the workers once, as an argument of many tasks."""
        return self._client.scatter(value, hash=False)

    def results(self, futures: Sequence[Future]) -> list[Any]:
        """Return what tasks returned, in their order; raises what the first one raised."""
        return list(self._client.gather(futures))

    def reduced(
        self, function: Callable[[Sequence[T]], T], futures: Sequence[Future], width: int = 8
    ) -> Future:
        """Return the result of a function of all results, some of them at a time; one at least."""
        left = list(futures)
        while len(left) > 1:
            left = [
                self.submit(function, left[start : start + width])
                for start in range(0, len(left), width)
            ]
        return left[0]

    def mapped(
        self, function: Callable[Concatenate[Any, P], T], items: Iterable[Any], *args: Any
    ) -> Iterator[tuple[int, T]]:
        """Yield the place of each item, and what a function of it returned, as that comes."""
        from distributed import as_completed  # noqa: PLC0415 - an extra

        places = {self.submit(function, item, *args): place for place, item in enumerate(items)}
        for future in as_completed(list(places), loop=self._client.loop):
            yield places.pop(future), future.result()
