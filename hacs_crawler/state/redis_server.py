"""A connection to Redis, one server or a cluster, whose errors name the server and no password."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.retry import Retry

from hacs_crawler.exceptions import StateError, StateUnavailableError

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
# a script's own errors come wrapped in more text, hence looked for anywhere in the message
_PASSING = (
    "OOM command",
    "MISCONF",
    "READONLY",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "LOADING",
    "MASTERDOWN",
)


class RedisServer:
    """A server (`redis://`, `rediss://`, `unix://`) or cluster (`redis+cluster://`).

    `what` is what errors call that which is kept there. Raises StateUnavailableError where a cluster
    cannot be reached; one server is asked only when it is used.
    """

    def __init__(self, url: str, what: str = "state") -> None:
        self._what = what
        self.shown = without_password(url)
        self.is_cluster = url.startswith(("redis+cluster://", "rediss+cluster://"))
        options: dict[str, Any] = {
            "socket_connect_timeout": CONNECT_SECONDS,
            "socket_timeout": ANSWER_SECONDS,
        }
        with self.naming_errors("open"):
            if self.is_cluster:
                self.client: Any = RedisCluster.from_url(url.replace("+cluster", "", 1), **options)
            else:
                options["retry"] = Retry(NoBackoff(), 1)
                self.client = redis.Redis.from_url(url, **options)

    def add_call(self, pipe: Any, script: str, keys: Sequence[str], *args: object) -> None:
        """Add a script's call with keys of one slot to a pipeline."""
        pipe.execute_command("EVAL", script, len(keys), *keys, *args, **self._node(keys[0]))

    def call(self, script: str, keys: Sequence[str], *args: object) -> Any:
        """Run a script on keys of one slot; to be used within `naming_errors`."""
        return self.client.execute_command(
            "EVAL", script, len(keys), *keys, *args, **self._node(keys[0])
        )

    def close(self) -> None:
        """Close all connections."""
        self.client.close()

    @contextmanager
    def naming_errors(self, action: str) -> Iterator[None]:
        """Turn what redis-py raises into errors that name the server, never its password."""
        try:
            yield
        except redis.exceptions.AuthenticationError as error:
            msg = f"cannot {action} the {self._what} in {self.shown}: {error}"
            raise StateError(msg) from error
        except (
            redis.exceptions.RedisError,
            redis.exceptions.RedisClusterException,
            OSError,
            ValueError,
            TypeError,
        ) as error:
            msg = f"cannot {action} the {self._what} in {self.shown}: {error}"
            if _may_pass(error):
                raise StateUnavailableError(msg) from error
            raise StateError(msg) from error

    def _node(self, key: str) -> dict[str, Any]:
        # not told the node, redis-py asks the server for each call which of its arguments are keys
        return {"target_nodes": self.client.get_node_from_key(key)} if self.is_cluster else {}


def without_password(url: str) -> str:
    """Return the URL as it may be shown: without user, password, and the query, which may hold them."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _may_pass(error: Exception) -> bool:
    if isinstance(error, redis.exceptions.ResponseError):
        return any(word in str(error) for word in _PASSING)
    return isinstance(
        error,
        redis.exceptions.ConnectionError
        | redis.exceptions.TimeoutError
        | redis.exceptions.RedisClusterException
        | OSError,
    )
